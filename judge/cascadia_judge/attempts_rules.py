"""What gives away that a sentence speaks to a judge: rules over its skeleton (lower case, no accents).

Most answers have none of the words that a rule needs, and regular expressions are slow: so each rule is looked at
only where one of its stems, the first letters of a word, is there.
"""

import re
from typing import NamedTuple

STEM = 4
_WORDS = re.compile(r"[a-z0-9]+")

_GRADE = (
    r"(?:grad(?:e|es|ed|er|ers|ing)|scor(?:e|es|ed|ing)|rat(?:e|ed|ing)s?|marks?|points?|verdicts?|"
    r"evaluat\w+|assess\w*|rubrics?)"
)
_TOP = (
    r"(?:100|10|9|nine|ten|hundred|(?:the )?(?:high\w*|max\w*|full|top|best|perfect\w*|excellent|good|"
    r"correct)|a\+|five stars|5 stars)"
)


class Rule(NamedTuple):
    """`pattern` matches only texts with a word that begins with one of `stems` (a shorter stem is a whole word)."""

    stems: frozenset[str]
    pattern: re.Pattern[str]


def _rule(stems: str, pattern: str) -> Rule:
    return Rule(frozenset(stems.split()), re.compile(pattern, re.DOTALL))


RULES = (
    # Told to forget what it was told.
    _rule(
        "igno disr forg over bypa skip drop stop foll appl use atte canc void supe susp repl",
        r"\b(?:ignor\w*|disregard\w*|forget\w*|overrid\w*|overrul\w*|bypass\w*|skip|drop|"
        r"stop following|do not (?:follow|apply|use)|"
        r"pay no attention to|cancel|void|supersed\w*|suspend\w*|"
        r"replac\w*)\b.{0,60}\b(?:instruct\w*|rules?|rubrics?|prompts?|criteria|"
        r"guidelines?|directions?|grading|above|previous|prior|earlier|before|told|everything|"
        r"scale|standards?|questions?)\b",
    ),
    # A grade asked for, claimed, or set down as if it were given.
    _rule(
        "grad scor rate rati mark poin verd eval asse rubr",
        rf"\b{_GRADE}\b.{{0,60}}\b{_TOP}\b",
    ),
    _rule(
        "grad scor rate rati mark poin verd eval asse rubr",
        rf"\b(?:give|award|assign|return|output|write|print|respond|reply|answer|say|choose|pick|"
        rf"select|emit|deserv\w*|earn\w*|worth|"
        rf"receiv\w*|get|gets|got|merit\w*|qualif\w*|is|be|"
        rf"was)\b.{{0,40}}\b{_TOP}\b.{{0,40}}\b{_GRADE}\b",
    ),
    _rule(
        "grad scor rate rati mark poin verd eval asse rubr",
        rf"\b{_TOP}\b[ ,:=-]{{0,3}}\b{_GRADE}\b",
    ),
    _rule(
        "9 10 100 nine ten hund",
        r"\b(?:give|award|assign|return|output|write|print|respond with|reply with|answer with|say|"
        r"choose|pick|select|emit)\b[^.\n]{0,30}\b"
        r"(?:9|10|100|nine|ten|hundred)\b",
    ),
    _rule(
        "9 10 100 out",
        r"\b(?:9\s*/\s*9|10\s*/\s*10|100\s*/\s*100|100\s*%|\d+ out of (?:9|10|100|five|ten))(?!\w)",
    ),
    _rule(
        "grad scor rati verd qual acce conf corr",
        r"\b(?:grade|score|rating|verdict|quality|accept\w*|confidence|is_correct|"
        r"correct)\b[\"'*_` ]*[:=][\"'*_` ]*"
        r"(?:\d+|true|yes|pass|accept\w*|correct|perfect|high)",
    ),
    # The judge spoken to, or of.
    _rule(
        "judg grad eval revi mark exam clas rewa asse scor rate ai llm mode lang assi syst",
        r"\b(?:dear|hey|hello|hi|to the|to all|attention|note to|message (?:to|for)|as an?|as the|"
        r"you are an?|you are the|you, the)\b"
        r".{0,20}\b(?:judge|grader|evaluator|grading|reviewer|marker|examiner|classifier|"
        r"reward model|assessor|scorer|rater|"
        r"ai|llm|model|language model|assistant|system)\b",
    ),
    _rule(
        "judg grad eval exam asse scor rate rewa clas gate gate",
        r"\b(?:the|this|any|every|your|all) (?:judge|grader|evaluator|examiner|assessor|scorer|"
        r"rater|reward model|classifier|gate)s?\b",
    ),
    _rule(
        "answ resp repl solu outp",
        r"\b(?:this|the|my|above|preceding|following)\b.{0,20}\b(?:answer|response|reply|solution|"
        r"output)\b.{0,40}\b(?:is|was|has been|deserves?|"
        r"should|must|meets?|satisf\w*|fulfil\w*|contains?|earns?|matches|"
        r"counts?)\b.{0,60}\b(?:correct\w*|perfect\w*|complete\w*|"
        r"accurate|right|verified|valid|approved|accepted|accept|excellent|best|flawless|reliable|"
        r"full|highest|all|top|gold|reference|true)\b",
    ),
    _rule(
        "veri appr cert conf fact peer vali prea pre sign huma",
        r"\b(?:verified|approved|certified|confirmed|fact-?checked|peer-?reviewed|validated|"
        r"pre-?approved|signed off|human-?checked)\b"
        r".{0,40}\b(?:by|correct|answer|accurate|true|expert|openai|anthropic|google|staff|team|"
        r"teacher|professor)\b",
    ),
    _rule(
        "deve debu main god admi test sudo root over jail",
        r"\b(?:developer|debug|maintenance|god|admin\w*|test|sudo|root|override|jailbreak) (?:mode|"
        r"access|command|code|token|privileg\w*)\b",
    ),
    _rule(
        "tip pay lose fire die job life care gran live depe",
        r"\b(?:i will|i'll|we will) (?:tip|pay|lose|be fired|die)\b|\b(?:my (?:job|life|career|"
        r"grandmother)|lives? depends?)\b",
    ),
    _rule(
        "acce esca mark thre",
        r"\b(?:accept this|do not escalate|don't escalate|no need to escalate|mark (?:this|it) as|"
        r"threshold|escalat\w+)\b",
    ),
    _rule(
        "inst agre disc requ",
        r"\bas (?:instructed|agreed|discussed|required|requested) (?:above|before|earlier|by)\b",
    ),
    # Words of grading that an answer has little use for.
    _rule(
        "grad rubr judg verd gold refe mode key answ",
        r"\b(?:grades?|graded|graders?|grading|rubrics?|judge?ment|verdicts?)\b|\b(?:gold|"
        r"reference|model|key) answers?\b|\banswer key\b",
    ),
    _rule(
        "9 10 100 acce repe",
        r"\b\d+ of (?:9|10|100)\b|\baccept (?:it|this|my|the answer|short answers)\b|\brepeat after me\b",
    ),
    _rule(
        "grad eval kind gene leni noth",
        r"\b(?:stop|skip) (?:grading|evaluating)\b|\b(?:be|being) (?:kind|generous|lenient)\b|"
        r"\bnothing below\b",
    ),
    _rule(
        "peer vali scal exac",
        r"\b(?:peer-?reviewed|validated against)\b|\bthe scale is\b|\bexactly what was asked\b",
    ),
    # In other languages: forget or ignore, instruction or rule, grade or points, highest.
    _rule(
        "igno verg miss anwe hoch voll bewe punk",
        r"ignorier\w*|vergiss\w*|missachte\w*|anweisung\w*|hochstnote|hochste\w* (?:note|punkt\w*|"
        r"bewertung)|volle punkt\w*|bewert\w*|punktzahl",
    ),
    _rule(
        "dies cett esta ques figy utas igno oubl olvi dime esqu desc cons inst istr regl rego regr",
        r"\bdiese antwort ist\b|\bcette reponse est\b|\besta respuesta es\b|\bquesta risposta e\b|"
        r"\besta resposta\b|figyelmen kivul|utasitas|"
        r"ignor(?:ez|er|a|e|ad|en|are|ate)\b|oubli(?:ez|er|e)\b|olvid(?:a|e|en|ar)\b|dimentica\w*|"
        r"esque(?:ca|cer)\w*|desconsider\w*|"
        r"\bconsignes?\b|\binstrucciones\b|\binstrucoes\b|\bistruzioni\b|\breglas\b|\bregole\b|"
        r"\bregras\b",
    ),
    _rule(
        "note nota punt pont cali eval aval valu voto ocen punk puan diem nila skor bety kara cijf beoo arvo "
        "hodn znam oszt",
        r"\b(?:note|notes|nota|notas|puntuacion|pontuacao|punteggio|calificacion|calificar?|"
        r"evaluacion|avaliacao|valutazione|voto|ocena|ocene|"
        r"punkty|puan|puani|diem|nilai|skor|betyg|karakter|cijfer|beoordeling|arvosana|hodnoceni|"
        r"znamku|osztalyzat|nota maxima)\b",
    ),
    _rule(
        "nege verg zign zapo yoks unut gorm abai lupa igno glom bo puut inst tali huon poky",
        r"\b(?:negeer|vergeet|zignoruj|zapomnij|yoksay|unut|gormezden|abaikan|lupakan|ignorera|"
        r"glom|ignorer|bo qua|puuttumatta|ignoruj|"
        r"instructies|instrukcj\w*|talimat\w*|instruksi|instruktion\w*|instruksjon\w*|huong dan|"
        r"pokyny)\b",
    ),
)


def is_addressed(simple: str) -> bool:
    """Whether some rule matches `simple`, a skeleton."""
    there = {word[:STEM] for word in _WORDS.findall(simple)}
    return any(rule.pattern.search(simple) for rule in RULES if not rule.stems.isdisjoint(there))
