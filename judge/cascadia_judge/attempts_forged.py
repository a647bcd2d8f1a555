"""Where a text pretends that the answer is over: delimiters and roles that only a prompt or a chat template writes."""

import re

_AFTER_A_LINE = (
    r"(?:[ \t>*#_-]*(?:system|assistant|user|human|developer|admin(?:istrator)?|judge|grader|evaluator|moderator|"
    r"instructions?|new instructions?|system (?:message|prompt|note|override))[ \t*_]*[:>]|"
    r"[ \t]*[-=#*_~]{2,}[ \t]*(?:end|begin|start|new|system|instructions?|prompt|question|answer|grader?|grading|"
    r"verdict|judge)\b[^\n]{0,60}|"
    r"[ \t]*#{1,4}[ \t]*(?:instructions?|response|system|input|grade|score|verdict|evaluation|feedback|rating)\b"
    r"[ \t]*:?|"
    r"[ \t]*/\*)"
)
_FORGED = (
    # Delimiters and roles of chat templates and of prompts: what comes after one is no part of the answer. Each with
    # a text without which there is none.
    (
        "<",
        re.compile(
            r"<\|[^|>\n]{0,40}\|>|<{1,2}/?\s*(?:sys|system|user|assistant|human|developer|instructions?|admin|"
            r"judge|grader|end[_ ]of[_ ](?:turn|text|answer)|start_of_turn|eos|bos)\b[^>\n]{0,60}>{1,2}|</s>|"
            r"<[a-z]+\s[^>\n]{0,60}(?:display\s*:\s*none|hidden)[^>\n]{0,40}>|</?(?:answer|question|grade|score)>|"
            r"<!--"
        ),
    ),
    (
        "[",
        re.compile(
            r"\[/?(?:inst|sys|system|user|assistant|human|developer|admin)\]|"
            r"\[\s*/?\s*(?:end|start|begin|beginning)\b[^\]\n]{0,60}\]|"
            r"\[\s*/?\s*(?:question|answer|response|reference|grade|score|verdict)\b[^\]\n]{0,60}\]"
        ),
    ),
    ("\n", re.compile(rf"\n{_AFTER_A_LINE}")),
    ("```", re.compile(r"```[ \t]*(?:system|grade|verdict)")),
    ("role", re.compile(r"\"?role\"?[ \t]*[:=][ \t]*\"?(?:system|assistant|user|developer)")),
)
"""In lower case. Each with a text without which there is none."""
_AT_THE_BEGINNING = re.compile(_AFTER_A_LINE)


def forged_at(lines: str) -> int | None:
    """Where the first one begins; None where there is none."""
    if _AT_THE_BEGINNING.match(lines):
        return 0
    found = [match.start() for text, there in _FORGED if text in lines and (match := there.search(lines))]
    return min(found, default=None)
