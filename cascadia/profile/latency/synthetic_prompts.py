"""Prompts of a wanted length that no cache has seen."""

from dataclasses import dataclass

import numpy as np

# Each is one token, with the space before it, in the vocabularies of most families.
WORDS = """
time year people way day man thing woman life child world school state family student group country
problem hand part place case week company system program question work number night point home water
room mother area money story fact month lot right study book eye job word business issue side kind
head house service friend father power hour game line end member law car city name team minute idea
""".split()  # noqa: SIM905 (a list of seventy strings reads worse)


@dataclass(frozen=True, slots=True)
class MadeUp:
    """Draws prompts. Of `words` words one has about `words` · `tokens_per_word` + `fixed_tokens` tokens."""

    draw: np.random.Generator
    tokens_per_word: float = 1.0
    fixed_tokens: float = 0.0

    def prompt(self, tokens: int) -> str:
        """Random words, about `tokens` tokens, one word at least."""
        words = max(1, round((tokens - self.fixed_tokens) / self.tokens_per_word))
        return " ".join(self.draw.choice(WORDS, words))

    def counted(self, few: tuple[int, int], many: tuple[int, int]) -> "MadeUp":
        """Prompts sized as the engine counts: two prompts' (words, tokens)."""
        slope = max(0.1, (many[1] - few[1]) / (many[0] - few[0]))
        return MadeUp(self.draw, slope, few[1] - few[0] * slope)
