from grinch.cli import main

main()
