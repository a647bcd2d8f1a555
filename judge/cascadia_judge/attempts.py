"""What an answer says to its judge, and the answer without it.

An answer is graded as it stands *and* without what looks addressed to a judge; the lower grade counts
(`readings`). So what is taken for an attempt, rightly or not, can lower a grade and never raise it: the
lists below need not be free of false alarms, and what they miss is what remains to be measured. Nothing
here follows anything.
"""

import codecs
import re
from collections.abc import Iterator

from cascadia_judge.attempts_rules import is_addressed
from cascadia_judge.plain import plain, skeleton

_FORGED = re.compile(
    # Delimiters and roles of chat templates and of prompts: what comes after one is no part of the answer.
    r"<\|[^|>\n]{0,40}\|>|<{1,2}/?\s*(?:sys|system|user|assistant|human|developer|instructions?|admin|"
    r"judge|grader|"
    r"end[_ ]of[_ ](?:turn|text|answer)|start_of_turn|eos|bos)\b[^>\n]{0,60}>{1,2}|</s>|"
    r"\[/?(?:inst|sys|system|user|assistant|human|developer|admin)\]|"
    r"\[\s*/?\s*(?:end|start|begin|beginning)\b[^\]\n]{0,60}\]|"
    r"\[\s*/?\s*(?:question|answer|response|reference|grade|score|verdict)\b[^\]\n]{0,60}\]|"
    r"(?:^|\n)[ \t>*#_-]*(?:system|assistant|user|human|developer|admin(?:istrator)?|judge|grader|"
    r"evaluator|moderator|"
    r"instructions?|new instructions?|system (?:message|prompt|note|override))[ \t*_]*[:>]|"
    r"(?:^|\n)[ \t]*[-=#*_~]{2,}[ \t]*(?:end|begin|start|new|system|instructions?|prompt|question|"
    r"answer|grader?|grading|"
    r"verdict|judge)\b[^\n]{0,60}|"
    r"(?:^|\n)[ \t]*#{1,4}[ \t]*(?:instructions?|response|system|input|grade|score|verdict|evaluation|"
    r"feedback|rating)\b[ \t]*:?|"
    r"<[a-z]+\s[^>\n]{0,60}(?:display\s*:\s*none|hidden)[^>\n]{0,40}>|```[ \t]*(?:system|grade|"
    r"verdict)|</?(?:answer|question|grade|score)>|"
    r"<!--|(?:^|\n)[ \t]*/\*|\"?role\"?[ \t]*[:=][ \t]*\"?(?:system|assistant|user|developer)"
)

_OTHER_SCRIPTS = re.compile(
    # Russian and Ukrainian, Greek, Chinese, Japanese, Korean, Arabic, Hebrew, Persian, Hindi, Bengali, Thai.
    r"этот ответ|цей відповід|игнорир|забудь|инструкц|правил|оценк|оцени|балл|ігнор|інструкц|оцінк|"
    r"αγνοη|αγνόη|οδηγι|βαθμολογ|βαθμ[οό]|"
    r"这个答案|這個答案|この回答|이 답변|忽略|无视|無視|忘记|忘記|指令|指示|评分|評分|"
    r"打分|满分|滿分|分数|分數|评价|得分|採点|点数|満点|評価|規則|规则|"
    r"무시|지시|점수|평가|만점|채점|"
    r"تجاهل|تعليمات|درجة|الدرجة|تقييم|קוצי|התעלם|הוראות|ציון|נקודות|نادیده|دستور|نمره|امتیاز|"
    r"अनदेखा|निर्देश|अंक|स्कोर|मूल्यांकन|উপেক্ষা|নির্দেশ|নম্বর|স্কোর|ละเว้น|เพิกเฉย|คำสั่ง|คะแนน|ประเมิน"
)
_CODED = re.compile(
    r"\b(?:ignor\w*|disregard|rubric|instructions?|highest|grade|score|accept it|"
    r"full marks)\b.{0,60}\b(?:rubric|instructions?|rules|"
    r"answer|grade|score|[0-9]+|highest|marks|accept)\b",
    re.DOTALL,
)
"""Stricter, since ordinary text in a code looks like anything."""
_LEET = str.maketrans("013457@$!|", "oieastasii")
_SPELLED = re.compile(r"(?<!\w)(?:\w[ ._*-]){4,}\w(?!\w)")
_ENCODED = re.compile(
    r"[A-Za-z0-9+/_-]{32,}={0,2}|(?:[0-9a-fA-F]{2}[ :]?){16,}|(?:\\[ux][0-9a-fA-F]{2,4}){6,}|"
    r"(?:&#x?[0-9a-fA-F]+;){4,}|(?:%[0-9a-fA-F]{2}){6,}"
)
_PERCENT = re.compile(r"%([0-9a-f]{2})")
_BETWEEN = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])(?=.)|\n+")
_WORD = re.compile(r"\w*[a-z]\w*")
_TOGETHER = re.compile(r"ignore|rubric|grade|instruction|highest|fullmarks|acceptthis|acceptit")


def readings(answer: str) -> tuple[str, ...]:
    """The texts to be graded, of which the lowest grade counts: the answer as it looks, and without
    attempts where it has any."""
    seen = plain(answer)
    kept = without_attempts(seen)
    return (seen,) if kept == seen else (seen, kept)


def without_attempts(seen: str) -> str:
    """`seen`, as `plain` returns it, less the sentences that speak to a judge, and less all that follows a
    forged delimiter."""
    forged = _FORGED.search(skeleton_lines(seen))
    body = seen[: forged.start()] if forged else seen
    if not forged and not speaks_to_a_judge(body):
        # Nothing in the whole of it, so nothing in its parts.
        return body
    kept = "".join(segment for segment in _segments(body) if not speaks_to_a_judge(segment))
    return kept.strip()


def _segments(body: str) -> Iterator[str]:
    """Sentences and lines, each with what stands between it and the next."""
    start = 0
    for between in _BETWEEN.finditer(body):
        yield body[start : between.end()]
        start = between.end()
    yield body[start:]


def skeleton_lines(seen: str) -> str:
    """`skeleton` where it keeps every character's place, else lower case alone."""
    simple = skeleton(seen)
    return (
        simple if len(simple) == len(seen) else "".join(c.lower() if len(c.lower()) == 1 else c for c in seen)
    )


def speaks_to_a_judge(segment: str) -> bool:
    """Also where it is written backwards, in a simple code, with spaced letters or with figures for letters."""
    simple = skeleton(segment)
    if is_addressed(simple):
        return True
    if not segment.isascii() and _OTHER_SCRIPTS.search(segment):
        return True
    if _ENCODED.search(segment):
        return True
    if any(len(run) > 12 and _TOGETHER.search(_joined(run)) for run in _SPELLED.findall(simple)):
        return True
    return any(_CODED.search(other) for other in _decoded(simple))


def _decoded(simple: str) -> Iterator[str]:
    """What else `simple` may stand for, where it has a word that would be telling."""
    if any(word in simple for word in _BACKWARDS):
        yield simple[::-1]
    if any(word in simple for word in _ROTATED):
        yield codecs.decode(simple, "rot13")
    if "%" in simple:
        yield _PERCENT.sub(lambda code: chr(int(code.group(1), 16)), simple)
    if _FIGURES.search(simple):
        yield _WORD.sub(lambda word: word.group().translate(_LEET), simple)


def _joined(run: str) -> str:
    return re.sub(r"[ ._*-]", "", run)


_FIGURES = re.compile(r"[a-z][0-9@$!|]|[0-9@$!|][a-z]")
_TELLING = ("ignor", "disregard", "rubric", "instruction", "highest", "grade", "score", "accept", "marks")
_BACKWARDS = tuple(word[::-1] for word in _TELLING)
_ROTATED = tuple(codecs.encode(word, "rot13") for word in _TELLING)
