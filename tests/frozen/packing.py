from .parts import Part

PARTS: list[Part] = []
