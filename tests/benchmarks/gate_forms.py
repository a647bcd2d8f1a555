"""Questions that ask for a JSON object, with the object that is right: for verifiers, which see only its form."""

import json
from dataclasses import dataclass
from random import Random
from typing import Any

NAMES = (
    "Ana",
    "Ben",
    "Chloe",
    "Dan",
    "Eva",
    "Finn",
    "Grace",
    "Hugo",
    "Iris",
    "Jon",
    "Kim",
    "Leo",
    "Mia",
    "Noah",
)
TOWNS = (
    "Paris",
    "Rome",
    "Oslo",
    "Lima",
    "Cairo",
    "Delhi",
    "Quito",
    "Riga",
    "Bern",
    "Tokyo",
    "Madrid",
    "Vienna",
)
JOBS = ("nurse", "baker", "pilot", "teacher", "farmer", "lawyer", "painter", "driver")
WORDING = (
    "{name}, a {age}-year-old {job}, lives in {town}.",
    "In {town} lives a {job} called {name}, who is {age}.",
    "{name} is {age} and works as a {job} in {town}.",
    "Meet the {job} {name} from {town}. Age: {age}.",
)
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer"},
        "job": {"enum": list(JOBS)},
        "town": {"type": "string"},
    },
    "required": ["name", "age", "job", "town"],
    "additionalProperties": False,
}
SEED = 4


@dataclass(frozen=True, slots=True)
class Form:
    key: str
    right: dict[str, Any]

    def request(self, model: str) -> dict[str, Any]:
        """One example, so that small models know what is wanted."""
        shown = {"name": "Zoe", "age": 41, "job": "cook", "town": "Lyon"}
        turns = [
            ("user", _asked("Zoe is a cook of 41 years in Lyon.")),
            ("assistant", json.dumps(shown)),
            ("user", _asked(self.key)),
        ]
        messages = [{"role": role, "content": text} for role, text in turns]
        return {"model": model, "messages": messages, "max_tokens": 48, "temperature": 0}

    def is_right(self, answer: str) -> bool:
        try:
            return bool(json.loads(answer) == self.right)
        except ValueError:
            return False


def _asked(text: str) -> str:
    return f"Write name, age, job and town as one JSON object. {text}"


def forms(count: int) -> list[Form]:
    random = Random(SEED)
    made: dict[str, Form] = {}
    while len(made) < count:
        right = {
            "name": random.choice(NAMES),
            "age": random.randint(18, 80),
            "job": random.choice(JOBS),
            "town": random.choice(TOWNS),
        }
        text = random.choice(WORDING).format(**right)
        made.setdefault(text, Form(text, right))
    return list(made.values())
