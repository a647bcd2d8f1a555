"""Whether a text says something to a judge in another script, spelled apart, backwards, or in a simple code.

Each look has a cheaper one before it that is never wrong where it finds nothing.
"""

import codecs
import re

from cascadia_judge.attempts_rules import matches_from
from cascadia_judge.plain import strangers

_IN_OTHER_SCRIPTS = (
    # Russian and Ukrainian, Greek, Chinese, Japanese, Korean, Arabic, Hebrew, Persian, Hindi, Bengali, Thai.
    r"этот ответ|цей відповід|игнорир|забудь|инструкц|правил|оценк|оцени|балл|ігнор|інструкц|оцінк|"
    r"αγνοη|αγνόη|οδηγι|βαθμο|βαθμό|"
    r"这个答案|這個答案|この回答|이 답변|忽略|无视|無視|忘记|忘記|指令|指示|评分|評分|"
    r"打分|满分|滿分|分数|分數|评价|得分|採点|点数|満点|評価|規則|规则|"
    r"무시|지시|점수|평가|만점|채점|"
    r"تجاهل|تعليمات|درجة|الدرجة|تقييم|קוצי|התעלם|הוראות|ציון|נקודות|نادیده|دستور|نمره|امتیاز|"
    r"अनदेखा|निर्देश|अंक|स्कोर|मूल्यांकन|উপেক্ষা|নির্দেশ|নম্বর|স্কোর|ละเว้น|เพิกเฉย|คำสั่ง|คะแนน|ประเมิน"
)
_OTHER_SCRIPTS = re.compile(_IN_OTHER_SCRIPTS)
_FIRSTS = frozenset(word[0] for word in _IN_OTHER_SCRIPTS.split("|"))
_CODED = re.compile(
    r"\b(?:ignor\w*|disregard|rubric|instructions?|highest|grade|score|accept it|"
    r"full marks)\b.{0,60}\b(?:rubric|instructions?|rules|"
    r"answer|grade|score|[0-9]+|highest|marks|accept)\b",
    re.DOTALL,
)
"""Stricter, since ordinary text in a code looks like anything."""
_CODED_BEGINS = (
    "ignor", "disregard", "rubric", "instruction", "highest", "grade", "score", "accept it", "full marks",
)  # fmt: skip
_BACKWARDS = tuple(word[::-1] for word in _CODED_BEGINS)
_ROTATED = tuple(codecs.encode(word, "rot13") for word in _CODED_BEGINS)
_LEET = str.maketrans("013457", "oieast")
_LEET_BYTES = bytes.maketrans(b"013457", b"oieast")
_LETTER_OR_FIGURE = bytes(
    1 if chr(c) in "abcdefghijklmnopqrstuvwxyz" else 2 if chr(c) in "0123456789@$!|" else 0
    for c in range(256)
)
_WORD = re.compile(r"\w*[a-z]\w*")
_PERCENT = re.compile(r"%([0-9a-f]{2})")

_SPELLED = re.compile(r"(?<!\w)(?:\w[ ._*-]){4,}\w(?!\w)")
_BETWEEN = re.compile(r"[ ._*-]")
_TOGETHER = re.compile(r"ignore|rubric|grade|instruction|highest|fullmarks|acceptthis|acceptit")
_LETTER, _GAP = b"\x01", b"\x02"
_LETTER_OR_GAP = bytes(
    1 if chr(c).isalpha() and c < 128 else 2 if chr(c) in " ._*-" else 0 for c in range(256)
)
_SPELLED_BYTES = (_LETTER + _GAP) * 4 + _LETTER
_SPELLED_OR_DASHES = re.compile(b"(?:[%b%b]%b){4}" % (_LETTER, _GAP, _GAP))
"""A dash below is a letter and a gap."""

_ENCODED = re.compile(
    r"(?:[0-9a-fA-F]{2}[ :]?){16,}|(?:\\[ux][0-9a-fA-F]{2,4}){6,}|(?:&#x?[0-9a-fA-F]+;){4,}|(?:%[0-9a-fA-F]{2}){6,}"
)
_BASE64 = bytes(chr(c).isalnum() or chr(c) in "+/_-" for c in range(128)) + bytes(128)
_HEX = bytes(chr(c) in "0123456789abcdefABCDEF :" for c in range(128)) + bytes(128)
_RUN = b"\x01" * 32


def in_another_script(text: str) -> bool:
    return not _FIRSTS.isdisjoint(strangers(text)) and _OTHER_SCRIPTS.search(text) is not None


def encoded(text: str, letters: bytes) -> bool:
    """`letters` are the text's bytes, one a character."""
    if _RUN in letters.translate(_BASE64):
        return True
    may_be = (
        _RUN in letters.translate(_HEX)
        or "&#" in text
        or "\\u" in text
        or "\\x" in text
        or text.count("%") >= 6
    )
    return may_be and _ENCODED.search(text) is not None


def spelled_apart(simple: str, letters: bytes) -> bool:
    kinds = letters.translate(_LETTER_OR_GAP)
    if not (_SPELLED_BYTES in kinds or ("_" in simple and _SPELLED_OR_DASHES.search(kinds))):
        return False
    return any(
        len(run) > 12 and _TOGETHER.search(_BETWEEN.sub("", run)) is not None
        for run in _SPELLED.findall(simple)
    )


def coded(simple: str, letters: bytes) -> bool:
    """Written backwards, rotated by 13, in percent signs, or with figures for letters."""
    if _any_of(_BACKWARDS, simple) and _says(simple[::-1]):
        return True
    if _any_of(_ROTATED, simple) and _says(codecs.decode(simple, "rot13")):
        return True
    if "%" in simple and matches_from(
        _CODED, _CODED_BEGINS, _PERCENT.sub(lambda code: chr(int(code.group(1), 16)), simple)
    ):
        return True
    kinds = letters.translate(_LETTER_OR_FIGURE)
    if b"\x01\x02" not in kinds and b"\x02\x01" not in kinds:
        return False
    if not _any_of(_CODED_BEGINS, letters.translate(_LEET_BYTES).decode()):
        return False
    return _says(_WORD.sub(lambda word: word.group().translate(_LEET), simple))


def _any_of(words: tuple[str, ...], text: str) -> bool:
    return any(map(text.__contains__, words))


def _says(other: str) -> bool:
    return matches_from(_CODED, _CODED_BEGINS, other)
