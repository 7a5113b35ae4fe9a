"""How good is the swap: any engine on any photos and clips, in numbers and in pictures.

    python -m tools.compare
    python -m tools.compare --photo me.jpg --clip talk.mp4 --sheet sheet.png
    python -m tools.compare --photo a.jpg --photo b.jpg --clip x.mp4 y.mp4 --markdown docs/quality.md

It runs offline, frame by frame, with the tracker of the program and an engine, and looks at the result with
networks of its own pass. ``docs/quality.md`` says what every figure means.
"""
