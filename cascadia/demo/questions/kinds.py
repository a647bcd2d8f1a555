"""Kinds of questions. Each is a function that draws one question; listed facts are drawn from `question_facts`."""

from collections.abc import Callable, Iterator
from random import Random

from cascadia.demo.questions import facts
from cascadia.demo.questions.question import Check, Question, number, words

Kind = Callable[[Random], Question]

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
          "December")  # fmt: skip
NAMES = ("Tom", "Anna", "Ben", "Sara", "Carl", "Lucy", "David", "Maria", "Peter", "Nina", "Paul", "Emma")
THINGS = ("apples", "books", "pens", "coins", "stamps", "shells", "marbles", "cards", "eggs", "balls")
_WORD_LIST = """
    house apple table river garden window flower bridge candle doctor school letter market planet
    kitchen orange silver mountain pencil button ticket rabbit winter summer island forest basket camera
    dragon engine family guitar hammer jacket ladder mirror needle office pocket rocket saddle temple
    valley wagon yellow cat dog sun tree bird fish book lamp door ship star milk rain snow wind
"""
WORDS = tuple(_WORD_LIST.split())
CLASSES = {
    "fruit": ["apple", "banana", "cherry", "grape", "mango", "peach", "pear", "plum", "lemon"],
    "animal": ["horse", "tiger", "rabbit", "camel", "monkey", "zebra", "wolf", "sheep", "otter"],
    "vegetable": ["carrot", "onion", "spinach", "cabbage", "broccoli", "lettuce"],
    "tool": ["hammer", "screwdriver", "saw", "drill", "wrench"],
    "musical instrument": ["piano", "violin", "guitar", "trumpet", "flute", "drum"],
    "vehicle": ["car", "bicycle", "truck", "bus", "train"],
    "colour": ["red", "blue", "green", "yellow", "purple"],
    "piece of clothing": ["shirt", "hat", "coat", "sock", "scarf"],
}
UNITS = (
    ("centimetres", "metre", "metres", 100),
    ("metres", "kilometre", "kilometres", 1000),
    ("grams", "kilogram", "kilograms", 1000),
    ("millimetres", "centimetre", "centimetres", 10),
    ("minutes", "hour", "hours", 60),
    ("seconds", "minute", "minutes", 60),
    ("hours", "day", "days", 24),
    ("days", "week", "weeks", 7),
    ("months", "year", "years", 12),
    ("millilitres", "litre", "litres", 1000),
    ("cents", "dollar", "dollars", 100),
    ("items", "dozen", "dozen", 12),
)


def _listed(kind: str, template: str, listed: facts.Facts) -> Kind:
    names = sorted(listed)

    def draw(random: Random) -> Question:
        name = random.choice(names)
        # A name may hold the line break and indentation of its list.
        text = " ".join(template.format(name).split())
        return Question(kind, name, text, words(*listed[name]))

    return draw


def _asked(kind: str, text: str, check: Check) -> Question:
    return Question(kind, text, text, check)


def _small(random: Random) -> int:
    """One digit as often as two."""
    return random.randint(1, 10) if random.random() < 0.5 else random.randint(11, 99)


def addition(random: Random) -> Question:
    a, b = _small(random), _small(random)
    return _asked("addition", f"What is {a} + {b}?", number(a + b))


def subtraction(random: Random) -> Question:
    a, b = sorted((_small(random), _small(random)), reverse=True)
    return _asked("subtraction", f"What is {a} minus {b}?", number(a - b))


def multiplication(random: Random) -> Question:
    a, b = random.randint(2, 12), random.randint(2, 10)
    return _asked("multiplication", f"What is {a} times {b}?", number(a * b))


def division(random: Random) -> Question:
    a, b = random.randint(2, 12), random.randint(2, 12)
    return _asked("division", f"What is {a * b} divided by {b}?", number(a))


def units(random: Random) -> Question:
    small, one, many, factor = random.choice(UNITS)
    count = random.randint(1, 6)
    return _asked(
        "units", f"How many {small} are in {count} {one if count == 1 else many}?", number(count * factor)
    )


def weekday(random: Random) -> Question:
    today, after = random.randrange(7), random.random() < 0.5
    there = DAYS[(today + (1 if after else -1)) % 7]
    text = random.choice(
        (
            f"Which day comes {'after' if after else 'before'} {DAYS[today]}?",
            f"If today is {DAYS[today]}, what day {'is tomorrow' if after else 'was yesterday'}?",
        )
    )
    return _asked(
        "weekday", text, words(there, wrong=tuple(d for d in DAYS if d not in (there, DAYS[today])))
    )


def month(random: Random) -> Question:
    at, after = random.randrange(12), random.random() < 0.5
    there = MONTHS[(at + (1 if after else -1)) % 12]
    text = f"Which month comes {'after' if after else 'before'} {MONTHS[at]}?"
    return _asked("month", text, words(there, wrong=tuple(m for m in MONTHS if m not in (there, MONTHS[at]))))


def larger(random: Random) -> Question:
    a, b = random.sample(range(2, 200), 2)
    smaller = random.random() < 0.5
    right = min(a, b) if smaller else max(a, b)
    text = f"Which number is {'smaller' if smaller else 'larger'}: {a} or {b}?"
    return _asked("comparison", text, Check("first number", (str(right),)))


def sequence(random: Random) -> Question:
    start, step = random.randint(1, 20), random.randint(2, 10)
    if random.random() < 0.3:
        start, step = random.randint(1, 5), 2
        shown = [start * 2**i for i in range(5)]
    else:
        shown = [start + step * i for i in range(5)]
    text = f"What is the next number in the sequence {', '.join(map(str, shown[:4]))}?"
    return _asked("sequence", text, number(shown[4]))


def story(random: Random) -> Question:
    name, thing, a, b = (
        random.choice(NAMES),
        random.choice(THINGS),
        random.randint(5, 20),
        random.randint(2, 5),
    )
    text, right = random.choice(
        (
            (f"{name} has {a} {thing} and buys {b} more. How many {thing} does {name} have?", a + b),
            (f"{name} has {a} {thing} and gives away {b}. How many {thing} are left?", a - b),
            (f"{name} has {b} boxes with {a} {thing} in each. How many {thing} are there in total?", a * b),
        )
    )
    return _asked("story", text, number(right))


def percent(random: Random) -> Question:
    share, of = random.choice((10, 20, 25, 50, 75)), random.randint(1, 20) * 20
    return _asked("percent", f"What is {share}% of {of}?", number(share * of / 100))


def letters(random: Random) -> Question:
    word = random.choice(WORDS)
    text, check = random.choice(
        (
            (f'What is the first letter of the word "{word}"?', words(word[0])),
            (f'What is the last letter of the word "{word}"?', words(word[-1])),
            (f'How many letters are in the word "{word}"?', number(len(word))),
        )
    )
    return _asked("letters", text, check)


def code(random: Random) -> Question:
    word, a, b = random.choice(WORDS), random.randint(2, 9), random.randint(2, 9)
    listed = random.sample(range(1, 20), 4)
    text, check = random.choice(
        (
            (f'len("{word}")', number(len(word))),
            (f'"{word}".upper()', words(word.upper())),
            (f"{a} + {b} * 2", number(a + b * 2)),
            (f"{a * b + 1} % {a}", number((a * b + 1) % a)),
            (f"{a} ** 2", number(a**2)),
            (f"max({listed})", number(max(listed))),
            (f"sum({listed[:3]})", number(sum(listed[:3]))),
            (f"{listed}[{a % 4}]", number(listed[a % 4])),
            (f"{a} > {b}", words(str(a > b), wrong=(str(a <= b),))),
        )
    )
    return _asked("code", f"In Python, what does print({text}) show?", check)


def double(random: Random) -> Question:
    value = random.randint(2, 50)
    text, right = random.choice(
        (
            (f"What is double {value}?", 2 * value),
            (f"What is half of {2 * value}?", value),
            (f"What is {value} squared?", value**2) if value < 16 else (f"What is twice {value}?", 2 * value),
        )
    )
    return _asked("double", text, number(right))


def member(random: Random) -> Question:
    wanted, other = random.sample(sorted(CLASSES), 2)
    yes = random.random() < 0.5
    thing = random.choice(CLASSES[wanted if yes else other])
    text = f"Is {_article(thing)} {thing} {_article(wanted)} {wanted}? Answer yes or no."
    return _asked("yes or no", text, _yes(yes))


def choice(random: Random) -> Question:
    wanted, other = random.sample(sorted(CLASSES), 2)
    right, wrong = random.choice(CLASSES[wanted]), random.sample(CLASSES[other], 2)
    shown = [right, *wrong]
    random.shuffle(shown)
    text = f"Which of these is {_article(wanted)} {wanted}: {', '.join(shown[:2])} or {shown[2]}?"
    return _asked("choice", text, words(right, wrong=tuple(wrong)))


def _article(noun: str) -> str:
    return "an" if noun[0] in "aeiou" else "a"


def _yes(yes: bool) -> Check:
    return words("yes", wrong=("no",)) if yes else words("no", wrong=("yes",))


KINDS: dict[str, Kind] = {
    "addition": addition,
    "subtraction": subtraction,
    "multiplication": multiplication,
    "division": division,
    "units": units,
    "weekday": weekday,
    "month": month,
    "comparison": larger,
    "sequence": sequence,
    "story": story,
    "percent": percent,
    "letters": letters,
    "code": code,
    "double": double,
    "member": member,
    "choice": choice,
    "capital": _listed("capital", "What is the capital of {}?", facts.CAPITALS),
    "continent": _listed("continent", "On which continent is {}?", facts.CONTINENTS),
    "symbol": _listed("symbol", "What is the chemical symbol for {}?", facts.SYMBOLS),
    "opposite": _listed("opposite", 'What is the opposite of "{}"?', facts.OPPOSITES),
    "plural": _listed("plural", 'What is the plural of "{}"?', facts.PLURALS),
    "colour": _listed("colour", "What color is {}?", facts.COLOURS),
    "city": _listed("city", "In which country is the city of {}?", facts.CITIES),
    "currency": _listed("currency", "What is the currency of {}?", facts.CURRENCIES),
    "language": _listed("language", "What language is spoken in {}?", facts.LANGUAGES),
    "general": _listed("general", "{}", facts.GENERAL),
}
"""By name; the order is that in which questions are drawn."""


def drawn(kind: str, random: Random) -> Iterator[Question]:
    """Questions without end, with repetitions."""
    while True:
        yield KINDS[kind](random)
