"""What an answer says to its judge, and the answer without it.

An answer is graded as it stands *and* without what looks addressed to a judge; the lower grade counts
(`readings`). So what is taken for an attempt, rightly or not, can lower a grade and never raise it: the
lists below need not be free of false alarms, and what they miss is what remains to be measured. Nothing
here follows anything.
"""

import codecs
import re
from collections.abc import Iterator

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

_GRADE = (
    r"(?:grad(?:e|es|ed|er|ers|ing)|scor(?:e|es|ed|ing)|rat(?:e|ed|ing)s?|marks?|points?|verdicts?|"
    r"evaluat\w+|assess\w*|rubrics?)"
)
_TOP = (
    r"(?:100|10|9|nine|ten|hundred|(?:the )?(?:high\w*|max\w*|full|top|best|perfect\w*|excellent|good|"
    r"correct)|a\+|five stars|5 stars)"
)
_ADDRESSED = re.compile(
    "|".join(
        (
            # Told to forget what it was told.
            r"\b(?:ignor\w*|disregard\w*|forget\w*|overrid\w*|overrul\w*|bypass\w*|skip|drop|"
            r"stop following|do not (?:follow|apply|use)|"
            r"pay no attention to|cancel|void|supersed\w*|suspend\w*|"
            r"replac\w*)\b.{0,60}\b(?:instruct\w*|rules?|rubrics?|prompts?|criteria|"
            r"guidelines?|directions?|grading|above|previous|prior|earlier|before|told|everything|"
            r"scale|standards?|questions?)\b",
            # A grade asked for, claimed, or set down as if it were given.
            rf"\b{_GRADE}\b.{{0,60}}\b{_TOP}\b",
            rf"\b(?:give|award|assign|return|output|write|print|respond|reply|answer|say|choose|pick|"
            rf"select|emit|deserv\w*|earn\w*|worth|"
            rf"receiv\w*|get|gets|got|merit\w*|qualif\w*|is|be|"
            rf"was)\b.{{0,40}}\b{_TOP}\b.{{0,40}}\b{_GRADE}\b",
            rf"\b{_TOP}\b[ ,:=-]{{0,3}}\b{_GRADE}\b",
            r"\b(?:give|award|assign|return|output|write|print|respond with|reply with|answer with|say|"
            r"choose|pick|select|emit)\b[^.\n]{0,30}\b"
            r"(?:9|10|100|nine|ten|hundred)\b",
            r"\b(?:9\s*/\s*9|10\s*/\s*10|100\s*/\s*100|100\s*%|\d+ out of (?:9|10|100|five|ten))(?!\w)",
            r"\b(?:grade|score|rating|verdict|quality|accept\w*|confidence|is_correct|"
            r"correct)\b[\"'*_` ]*[:=][\"'*_` ]*"
            r"(?:\d+|true|yes|pass|accept\w*|correct|perfect|high)",
            # The judge spoken to, or of.
            r"\b(?:dear|hey|hello|hi|to the|to all|attention|note to|message (?:to|for)|as an?|as the|"
            r"you are an?|you are the|you, the)\b"
            r".{0,20}\b(?:judge|grader|evaluator|grading|reviewer|marker|examiner|classifier|"
            r"reward model|assessor|scorer|rater|"
            r"ai|llm|model|language model|assistant|system)\b",
            r"\b(?:the|this|any|every|your|all) (?:judge|grader|evaluator|examiner|assessor|scorer|"
            r"rater|reward model|classifier|gate)s?\b",
            r"\b(?:this|the|my|above|preceding|following)\b.{0,20}\b(?:answer|response|reply|solution|"
            r"output)\b.{0,40}\b(?:is|was|has been|deserves?|"
            r"should|must|meets?|satisf\w*|fulfil\w*|contains?|earns?|matches|"
            r"counts?)\b.{0,60}\b(?:correct\w*|perfect\w*|complete\w*|"
            r"accurate|right|verified|valid|approved|accepted|accept|excellent|best|flawless|reliable|"
            r"full|highest|all|top|gold|reference|true)\b",
            r"\b(?:verified|approved|certified|confirmed|fact-?checked|peer-?reviewed|validated|"
            r"pre-?approved|signed off|human-?checked)\b"
            r".{0,40}\b(?:by|correct|answer|accurate|true|expert|openai|anthropic|google|staff|team|"
            r"teacher|professor)\b",
            r"\b(?:developer|debug|maintenance|god|admin\w*|test|sudo|root|override|jailbreak) (?:mode|"
            r"access|command|code|token|privileg\w*)\b",
            r"\b(?:i will|i'll|we will) (?:tip|pay|lose|be fired|die)\b|\b(?:my (?:job|life|career|"
            r"grandmother)|lives? depends?)\b",
            r"\b(?:accept this|do not escalate|don't escalate|no need to escalate|mark (?:this|it) as|"
            r"threshold|escalat\w+)\b",
            r"\bas (?:instructed|agreed|discussed|required|requested) (?:above|before|earlier|by)\b",
            # Words of grading that an answer has little use for.
            r"\b(?:grades?|graded|graders?|grading|rubrics?|judge?ment|verdicts?)\b|\b(?:gold|"
            r"reference|model|key) answers?\b|\banswer key\b",
            r"\b\d+ of (?:9|10|100)\b|\baccept (?:it|this|my|the answer|short answers)\b|\brepeat after me\b",
            r"\b(?:stop|skip) (?:grading|evaluating)\b|\b(?:be|being) (?:kind|generous|lenient)\b|"
            r"\bnothing below\b",
            r"\b(?:peer-?reviewed|validated against)\b|\bthe scale is\b|\bexactly what was asked\b",
            # In other languages: forget or ignore, instruction or rule, grade or points, highest.
            r"ignorier\w*|vergiss\w*|missachte\w*|anweisung\w*|hochstnote|hochste\w* (?:note|punkt\w*|"
            r"bewertung)|volle punkt\w*|bewert\w*|punktzahl",
            r"\bdiese antwort ist\b|\bcette reponse est\b|\besta respuesta es\b|\bquesta risposta e\b|"
            r"\besta resposta\b|figyelmen kivul|utasitas|"
            r"ignor(?:ez|er|a|e|ad|en|are|ate)\b|oubli(?:ez|er|e)\b|olvid(?:a|e|en|ar)\b|dimentica\w*|"
            r"esque(?:ca|cer)\w*|desconsider\w*|"
            r"\bconsignes?\b|\binstrucciones\b|\binstrucoes\b|\bistruzioni\b|\breglas\b|\bregole\b|"
            r"\bregras\b",
            r"\b(?:note|notes|nota|notas|puntuacion|pontuacao|punteggio|calificacion|calificar?|"
            r"evaluacion|avaliacao|valutazione|voto|ocena|ocene|"
            r"punkty|puan|puani|diem|nilai|skor|betyg|karakter|cijfer|beoordeling|arvosana|hodnoceni|"
            r"znamku|osztalyzat|nota maxima)\b",
            r"\b(?:negeer|vergeet|zignoruj|zapomnij|yoksay|unut|gormezden|abaikan|lupakan|ignorera|"
            r"glom|ignorer|bo qua|puuttumatta|ignoruj|"
            r"instructies|instrukcj\w*|talimat\w*|instruksi|instruktion\w*|instruksjon\w*|huong dan|"
            r"pokyny)\b",
        )
    ),
    re.DOTALL,
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
    """Also where it is written backwards, in a simple code, with spaced letters or with figures for
    letters."""
    simple = skeleton(segment)
    if _ADDRESSED.search(simple) or _OTHER_SCRIPTS.search(segment) or _ENCODED.search(segment):
        return True
    if any(len(run) > 12 and _TOGETHER.search(_joined(run)) for run in _SPELLED.findall(simple)):
        return True
    others = [
        _WORD.sub(lambda word: word.group().translate(_LEET), simple),
        simple[::-1],
        codecs.decode(simple, "rot13") if simple.isascii() else simple,
        _PERCENT.sub(lambda code: chr(int(code.group(1), 16)), simple),
    ]
    return any(other != simple and _CODED.search(other) for other in others)


def _joined(run: str) -> str:
    return re.sub(r"[ ._*-]", "", run)
