// Points drawn by the graphics card: two numbers of 16 bits and a color of 8 for each.

const VERTEX = `#version 300 es
in vec2 place;
in float color;
uniform vec4 view;
uniform float diameter;
uniform float alpha;
uniform sampler2D palette;
out vec4 fill;
void main() {
  gl_Position = vec4(place * view.xy + view.zw, 0.0, 1.0);
  gl_PointSize = diameter;
  fill = vec4(texture(palette, vec2((color * 255.0 + 0.5) / 256.0, 0.5)).rgb, alpha);
}`;

const FRAGMENT = `#version 300 es
precision highp float;
in vec4 fill;
uniform float diameter;
out vec4 color;
void main() {
  float inside = clamp((0.5 - length(gl_PointCoord - 0.5)) * diameter + 0.5, 0.0, 1.0);
  float shown = fill.a * (diameter < 2.0 ? 1.0 : inside);
  color = vec4(fill.rgb * shown, shown);
}`;

/** Whether there is no card, or only a program that plays one. @param {HTMLCanvasElement} canvas */
function isSlow(canvas) {
  const gl = canvas.getContext("webgl2", { failIfMajorPerformanceCaveat: true });
  if (!gl) return true;
  const known = gl.getExtension("WEBGL_debug_renderer_info");
  const name = String(gl.getParameter(known ? known.UNMASKED_RENDERER_WEBGL : gl.RENDERER));
  gl.getExtension("WEBGL_lose_context")?.loseContext();
  return /swiftshader|llvmpipe|software|basic render/i.test(name);
}

export class GlPoints {
  /** @param {HTMLCanvasElement} canvas @returns {GlPoints | null} Null where it would be slow. */
  static on(canvas, isForced = false) {
    // Asked of another canvas: one that has had a context for the card can have no other.
    if (!isForced && isSlow(document.createElement("canvas"))) return null;
    const gl = canvas.getContext("webgl2", { alpha: true, premultipliedAlpha: true, antialias: false, preserveDrawingBuffer: true });
    return gl && new GlPoints(gl);
  }

  /** @param {WebGL2RenderingContext} gl */
  constructor(gl) {
    this.gl = gl;
    this.kind = "webgl";
    this.n = 0;
    this._setUp();
    // A card that was lost, as when a laptop slept, comes back empty.
    gl.canvas.addEventListener("webglcontextlost", (event) => event.preventDefault());
    gl.canvas.addEventListener("webglcontextrestored", () => {
      this._setUp();
      this.onRestored?.();
    });
  }

  _setUp() {
    const { gl } = this, program = gl.createProgram();
    for (const [kind, source] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, source);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    gl.useProgram(program);
    this.at = Object.fromEntries(["view", "diameter", "alpha"].map((name) => [name, gl.getUniformLocation(program, name)]));
    this.places = this._buffer(gl.getAttribLocation(program, "place"), 2, gl.UNSIGNED_SHORT);
    this.colors = this._buffer(gl.getAttribLocation(program, "color"), 1, gl.UNSIGNED_BYTE);
    gl.bindTexture(gl.TEXTURE_2D, gl.createTexture());
    for (const side of [gl.TEXTURE_MIN_FILTER, gl.TEXTURE_MAG_FILTER]) gl.texParameteri(gl.TEXTURE_2D, side, gl.NEAREST);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
  }

  _buffer(location, parts, kind) {
    const { gl } = this, buffer = gl.createBuffer();
    gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
    gl.enableVertexAttribArray(location);
    gl.vertexAttribPointer(location, parts, kind, true, 0, 0);
    return buffer;
  }

  _fill(buffer, values) {
    this.gl.bindBuffer(this.gl.ARRAY_BUFFER, buffer);
    this.gl.bufferData(this.gl.ARRAY_BUFFER, values, this.gl.STATIC_DRAW);
  }

  /** @param {Uint16Array} x @param {Uint16Array} y */
  setPlaces(x, y) {
    const both = new Uint16Array(2 * x.length);
    for (let i = 0; i < x.length; i += 1) {
      both[2 * i] = x[i];
      both[2 * i + 1] = y[i];
    }
    this.n = x.length;
    this._fill(this.places, both);
  }

  /** @param {Uint8Array} colors Of each point, its number in the palette. @param {Uint8Array} palette 256 colors of four bytes. */
  setColors(colors, palette) {
    const { gl } = this;
    this._fill(this.colors, colors);
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, 256, 1, 0, gl.RGBA, gl.UNSIGNED_BYTE, palette);
  }

  /** @param {any} frame {a, b, c, d, width, height, diameter, alpha, dim, range}: x → a·x + c and y → b·y + d in pixels. */
  draw({ a, b, c, d, width, height, diameter, alpha, dim, range }) {
    const { gl } = this;
    gl.viewport(0, 0, width, height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT);
    gl.uniform4f(this.at.view, (2 * a * 65535) / width, (-2 * b * 65535) / height, (2 * c) / width - 1, 1 - (2 * d) / height);
    this._pass(0, this.n, diameter, alpha * dim);
    if (range) this._pass(range.start, range.size, diameter * 1.35, Math.max(alpha, 0.85));
  }

  _pass(start, count, diameter, alpha) {
    if (count <= 0 || start + count > this.n) return;
    this.gl.uniform1f(this.at.diameter, diameter);
    this.gl.uniform1f(this.at.alpha, alpha);
    this.gl.drawArrays(this.gl.POINTS, start, count);
  }
}
