"""Generated records, and the words they are made of."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random
from typing import NamedTuple

from grinch._checks import check_count
from grinch.resolve.authors.record import Record, block_key


def _groups(text: str) -> list[tuple[list[str], list[str]]]:
    """Parse groups, ended by semicolons, of words and, after a colon, of phrases separated by commas.

    >>> _groups("a b: c d, e; f: g")
    [(['a', 'b'], ['c d', 'e']), (['f'], ['g'])]
    """
    pairs = (group.split(":") for group in " ".join(text.split()).split(";"))
    return [(words.split(), [phrase.strip() for phrase in phrases.split(",")]) for words, phrases in pairs]


# First names and last names that go together.
PEOPLE = _groups("""
Bin Bo Chao Chen Cheng Dan Fang Fei Feng Gang Hai Hao Hong Hua Hui Jian Jie Jing Jun Kai Lei Li Lin Ling Lu Min Ming
Na Peng Ping Qi Qiang Qing Rui Shan Tao Ting Wei Wen Wenjie Wu Xia Xiao Xiaoming Xin Xu Yan Yang Yi Ying Yong Yu Yuan
Yun Ze Zhen Zhi Zhong: Chen, Gao, Guo, He, Huang, Li, Lin, Liu, Luo, Ma, Sun, Wang, Wu, Xu, Yang, Zhang, Zhao, Zheng,
Zhou, Zhu;
Jae-Hyun Jae-Won Ji-Hoon Ji-Young Jin-Woo Joon-Ho Jung-Min Hae-Won Hyun-Soo Kyung-Ho Kwang-Su Min-Ho Min-Jun Min-Seo
Sang-Hoon Seung-Ho Soo-Jin Sung-Min Tae-Young Woo-Jin Yong-Ho Young-Jae Yu-Na: Choi, Jung, Kang, Kim, Lee, Park, Shin,
Yoon;
Adam Alan Alice Andrew Anna Benjamin Brian Carol Charles Christopher Daniel David Diane Edward Elizabeth Emily Eric
Frank George Grace Hannah Helen James Jane Jason Jennifer John Jonathan Joseph Karen Katherine Kevin Laura Linda Mark
Martin Mary Matthew Michael Nancy Nathan Patricia Paul Peter Rachel Richard Robert Ruth Samuel Sarah Scott Stephen
Susan Thomas Timothy Walter William: Anderson, Baker, Brown, Clark, Cooper, Davis, Harris, Johnson, Jones, Miller,
Moore, Robinson, Smith, Taylor, Wilson;
Alejandro Ana Andrés Beatriz Carlos Carmen Cristina Diego Elena Fernando Francisco Gabriel Inés Isabel Javier Jesús
Jorge José Juan Juan-Carlos Laura Lucía Luis Manuel María Miguel Pablo Pedro Rafael Raúl Sofía Teresa: Díaz,
Fernández, García, Gómez, González, López, Martínez, Pérez, Rodríguez, Sánchez, de la Cruz;
Amit Anil Anita Arun Ashok Deepak Divya Ganesh Harish Kavita Kiran Lakshmi Manoj Meena Neha Pooja Pradeep Priya Rahul
Rajesh Ramesh Ravi Rohit Sanjay Sandeep Sunil Suresh Swati Vijay Vikram Vivek: Agarwal, Gupta, Iyer, Jain, Kumar,
Mehta, Patel, Rao, Sharma, Singh;
Andreas Anke Bernd Christian Claudia Dieter Eva Franz Georg Hans Jan Jens Jörg Jürgen Katrin Klaus Lars Markus Martin
Matthias Michael Peter Pieter Sabine Stefan Thomas Ulrich Uwe Wolfgang: Bauer, Becker, Fischer, Hoffmann, Krüger,
Müller, Schmidt, Schneider, Schröder, Weber, van den Berg, de Vries
""")
# Words of a topic, and where it is published.
TOPICS = _groups("""
clustering hierarchical dendrogram linkage agglomerative partition similarity incremental entity resolution
coreference record duplicate merging blocking: KDD, ICDM, SIGMOD, Data Mining and Knowledge Discovery;
query index transaction relational join optimizer storage concurrency schema views recovery logging column workload
cardinality: SIGMOD, VLDB, ICDE, ACM Transactions on Database Systems;
convolutional image segmentation recognition detection pixel pose scene texture camera stereo motion tracking face
feature: CVPR, ICCV, ECCV, Pattern Recognition;
parsing translation syntax sentence semantic corpus discourse lexicon dialogue summarization morphology annotation
grammar speech language: ACL, EMNLP, COLING, Computational Linguistics;
routing wireless protocol congestion bandwidth packet sensor mobile latency multicast spectrum channel antenna relay
handover: INFOCOM, SIGCOMM, MobiCom, IEEE Transactions on Communications;
encryption signature authentication privacy attack malware secure key anonymity trust intrusion vulnerability hash
zero-knowledge integrity: CCS, USENIX Security, CRYPTO, Computers and Security;
protein genome sequence expression gene alignment mutation pathway transcription cell phylogenetic tumor binding
folding variant: Bioinformatics, ISMB, RECOMB, Nucleic Acids Research;
robot manipulator grasping trajectory kinematic control locomotion navigation actuator autonomous mapping arm legged
planning force: ICRA, IROS, Autonomous Robots, IEEE Transactions on Robotics;
approximation graph combinatorial complexity bound randomized flow matching polynomial hardness sparse spanning cut
embedding rounding: STOC, FOCS, SODA, SIAM Journal on Computing;
testing compiler refactoring verification specification bug program static fault maintenance component requirements
debugging symbolic code: ICSE, FSE, ASE, IEEE Transactions on Software Engineering;
user interface interaction visualization usability gesture touch display accessibility collaboration children social
design haptic awareness: CHI, UIST, CSCW, Interacting with Computers;
circuit cache processor pipeline memory power voltage chip reconfigurable multicore synthesis timing layout bus
interconnect: ISCA, MICRO, DAC, IEEE Transactions on Computers
""")
# Words and small words of titles, and places.
COMMON_WORDS, SMALL_WORDS, PLACES = map(
    str.split,
    (
        """
analysis approach method model system efficient scalable framework data learning adaptive application evaluation
distributed novel robust algorithm performance study network information problem dynamic estimation
""",
        "a for of the with on in using under from towards via",
        """
Aachen Amherst Amsterdam Austin Bangalore Barcelona Beijing Boston Chicago Delhi Edinburgh Hangzhou Kyoto Lisbon
London Madrid Melbourne Munich Nanjing Paris Prague Seoul Shanghai Singapore Stockholm Toronto Vienna Warsaw Wuhan
Zurich
""",
    ),
)
SYLLABLES = ("ba", "co", "da", "fe", "gu", "ha", "ko", "la", "mi", "no", "ra", "si", "to", "vu")


class Career(NamedTuple):
    """What stays the same from one record of an author to the next, or changes slowly."""

    author: str
    first: str
    middle: str
    last: str
    topics: list[int]
    places: list[str]
    circle: list[str]
    start: int
    years: int
    orcid: str | None


def make_records(
    n_authors: int = 120, n_blocks: int = 12, random_state: int = 0, records_per_author: float = 8.0
) -> list[Record]:
    """Generate records of made-up authors, each with its true author, in random order.

    The authors of a block share last name and first initial, some of them the whole name. An author works on one or two
    topics, moves between places, and writes with a circle of colleagues and with occasional coauthors. Records are
    incomplete: first names are often initials, fields are missing, and there are typing errors.

    Parameters
    ----------
    n_authors, n_blocks : int
        How many authors in all, and how many names they share; each block has at least one author.
    random_state : int
        Seed: the same parameters give the same records.
    records_per_author : float
        The mean; many authors have few records, and few have many.

    Examples
    --------
    >>> records = make_records(n_authors=20, n_blocks=3)
    >>> len({record.author for record in records}), len({record.block for record in records})
    (20, 3)
    >>> records == make_records(n_authors=20, n_blocks=3)
    True
    """
    n_authors, n_blocks = check_count("n_authors", n_authors, 1), check_count("n_blocks", n_blocks, 1)
    if n_authors < n_blocks:
        raise ValueError(f"n_authors must be at least n_blocks; got n_authors={n_authors!r}, n_blocks={n_blocks!r}")
    if not 1 <= records_per_author < math.inf:
        raise ValueError(f"records_per_author must be a number of at least 1; got {records_per_author!r}")
    rng = Random(random_state)
    names = _shared_names(n_blocks, rng)
    # Some names are much more common than others.
    weights = [(rank + 1) ** -0.5 for rank in range(n_blocks)]
    sizes = [1] * n_blocks
    for chosen in rng.choices(range(n_blocks), weights, k=n_authors - n_blocks):
        sizes[chosen] += 1
    shared = [name for name, size in zip(names, sizes, strict=True) for _ in range(size)]
    written = []
    for i, (firsts, last) in enumerate(shared):
        career = _career(f"author-{i:04}", firsts, last, rng)
        n = 1 + int(rng.expovariate(1 / (records_per_author - 0.5)))
        written += [_record(career, rng) for _ in range(n)]
    rng.shuffle(written)
    return [_numbered(record, i) for i, record in enumerate(written)]


def _shared_names(n_blocks: int, rng: Random) -> list[tuple[list[str], str]]:
    """Return the first names and the last name of each block."""
    by_key = {}
    for firsts, lasts in PEOPLE:
        for initial in sorted({first[0] for first in firsts}):
            group = [first for first in firsts if first[0] == initial]
            by_key.update({block_key(f"{initial}. {last}"): (group, last) for last in lasts})
    found = list(by_key.values())
    # Blocks with many first names in them come first: they are the hard ones.
    found.sort(key=lambda block: (-min(len(block[0]), 3), rng.random()))
    for number in range(n_blocks - len(found)):
        found.append((found[number][0], _made_up(number)))
    return found[:n_blocks]


def _made_up(number: int) -> str:
    """Return a last name for each number."""
    name = ""
    for _ in range(4):
        number, syllable = divmod(number, len(SYLLABLES))
        name += SYLLABLES[syllable]
    return name.capitalize()


def _career(author: str, firsts: list[str], last: str, rng: Random) -> Career:
    years = min(35, 3 + int(rng.expovariate(1 / 8)))
    orcid = "-".join(f"{rng.randrange(10**4):04}" for _ in range(4)) if rng.random() < 0.15 else None
    return Career(
        author,
        rng.choice(firsts),
        rng.choice("ABCDEFGHJKLMNPRSTW") if rng.random() < 0.3 else "",
        last,
        rng.sample(range(len(TOPICS)), 1 + (rng.random() < 0.4)),
        rng.sample(PLACES, 1 + min(2, int(years / 8 * rng.random() * 2))),
        [_someone(rng) for _ in range(3 + int(rng.expovariate(0.2)))],
        rng.randint(1985, 2024 - years),
        years,
        orcid,
    )


def _someone(rng: Random) -> str:
    firsts, lasts = rng.choice(PEOPLE)
    return f"{rng.choice(firsts)} {rng.choice(lasts)}"


def _record(career: Career, rng: Random) -> Record:
    age = rng.random()
    words, venues = TOPICS[rng.choice(career.topics)]
    place = career.places[int(age * len(career.places))]
    places = (f"University of {place}", f"Univ. {place}", f"{place} Institute of Technology")
    return Record(
        id="",
        name=_spelled(career, rng),
        title=_title(words, rng),
        coauthors=tuple(_shortened(name, rng) for name in _company(career.circle, age, rng)),
        venue=rng.choice(venues) if rng.random() < 0.9 else "",
        year=career.start + int(age * career.years) if rng.random() < 0.9 else None,
        affiliation=rng.choice(places) if rng.random() < 0.5 else "",
        abstract=" ".join(_sentence(words, rng.randint(20, 40), rng)) if rng.random() < 0.3 else "",
        keywords=tuple(rng.sample(words, 3)) if rng.random() < 0.4 else (),
        author=career.author,
        block=block_key(f"{career.first} {career.last}"),
        orcid=career.orcid if rng.random() < 0.5 else None,
    )


def _company(circle: list[str], age: float, rng: Random) -> list[str]:
    """Return some of the half of the circle that is near at that age, and occasional coauthors."""
    near = max(3, len(circle) // 2)
    begin = int(age * (len(circle) - near + 1))
    people = rng.sample(circle[begin : begin + near], min(near, rng.choice((0, 1, 1, 2, 2, 3, 4))))
    return people + [_someone(rng) for _ in range(rng.choice((0, 0, 1, 1, 2)))]


def _numbered(record: Record, i: int) -> Record:
    return replace(record, id=f"r{i:05}", paper=f"p{i:05}")


def _spelled(career: Career, rng: Random) -> str:
    first = career.first if rng.random() < 0.6 else f"{career.first[0]}."
    if career.middle and rng.random() < 0.5:
        first += f" {career.middle}."
    return f"{career.last}, {first}" if rng.random() < 0.1 else f"{first} {career.last}"


def _shortened(name: str, rng: Random) -> str:
    first, last = name.split(" ", 1)
    return f"{first[0]}. {last}" if rng.random() < 0.3 else name


def _title(words: list[str], rng: Random) -> str:
    title = " ".join(_sentence(words, rng.randint(4, 9), rng)).capitalize()
    at = rng.randrange(1, len(title) - 1)
    return title[:at] + title[at + 1 :] if rng.random() < 0.05 else title


def _sentence(words: list[str], length: int, rng: Random) -> list[str]:
    pools = (words, COMMON_WORDS, SMALL_WORDS, rng.choice(TOPICS)[0])
    return [rng.choice(rng.choices(pools, (0.45, 0.3, 0.15, 0.1))[0]) for _ in range(length)]
