"""What gives away that a sentence speaks to a judge: rules over its skeleton (lower case, no accents).

Most answers have none of the words that a rule needs, and regular expressions are slow: so each rule is looked at
only where one of its stems, the first letters of a word, is there.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

STEM = 4
LONG_WORD = 32
"""Where a text has a longer word, a rule that looks around a stem looks at the whole text."""

_GRADE = (
    r"(?:grad(?:e|es|ed|er|ers|ing)|scor(?:e|es|ed|ing)|rat(?:e|ed|ing)s?|marks?|points?|verdicts?|"
    r"evaluat\w+|assess\w*|rubrics?)"
)
_TOP = (
    r"(?:100|10|9|nine|ten|hundred|(?:the )?(?:high\w*|max\w*|full|top|best|perfect\w*|excellent|good|"
    r"correct)|a\+|five stars|5 stars)"
)


_TOLD = (
    r"(?:instruct\w*|rules?|rubrics?|prompts?|criteria|guidelines?|directions?|grading|above|previous|"
    r"prior|earlier|before|told|everything|scale|standards?|questions?)"
)


class Rule(NamedTuple):
    """`pattern` matches only texts with a word that begins with one of `stems` (a shorter stem is a whole word).

    Where a match begins: so many characters `before` the stem's word; or it lies `around` that word, from so many
    before it to the end of the word so many after it; or it `begins` with one of some texts, anywhere.
    """

    stems: frozenset[str]
    pattern: re.Pattern[str]
    before: tuple[int, ...] = (0,)
    around: tuple[int, int] | None = None
    begins: tuple[str, ...] = ()

    def found(self, simple: str, places: Sequence[int], *, whole: bool) -> Sequence[int]:
        """Those of `places` (rising, of its stems) by which it matches, or others near them; `whole`: `simple` has a
        word of more than `LONG_WORD`."""
        if self.begins:
            return places if matches_from(self.pattern, self.begins, simple) else ()
        if self.around is None:
            match = self.pattern.match
            return [at for at in places if any(at >= n and match(simple, at - n) for n in self.before)]
        if whole:
            return places if self.pattern.search(simple) else ()
        return self._around(simple, places, *self.around)

    def _around(self, simple: str, places: Sequence[int], before: int, after: int) -> list[int]:
        """Neighbours are looked at together, so that nothing is looked at twice."""
        found: list[int] = []
        first = 0
        for i, at in enumerate(places):
            rest = _REST_OF_WORD.match(simple, min(at + after, len(simple)))
            end = rest.end() if rest else len(simple)
            if i + 1 == len(places) or places[i + 1] - before > end:
                if self.pattern.search(simple, max(0, places[first] - before), end):
                    found += places[first : i + 1]
                first = i + 1
        return found


def matches_from(pattern: re.Pattern[str], begins: Sequence[str], text: str) -> bool:
    """Whether `pattern`, each match of which begins with one of `begins`, is found in `text`."""
    for begin in begins:
        at = text.find(begin)
        while at >= 0:
            if pattern.match(text, at):
                return True
            at = text.find(begin, at + 1)
    return False


_REST_OF_WORD = re.compile(r"\w*")


def _rule(
    stems: str,
    pattern: str,
    *,
    before: tuple[int, ...] = (0,),
    around: tuple[int, int] | None = None,
    begins: Sequence[str] = (),
) -> Rule:
    return Rule(frozenset(stems.split()), re.compile(pattern, re.DOTALL), before, around, tuple(begins))


RULES = (
    # Told to forget what it was told.
    _rule(
        "igno disr forg over bypa skip drop stop canc void supe susp repl",
        r"\b(?:ignor\w*|disregard\w*|forget\w*|overrid\w*|overrul\w*|bypass\w*|skip|drop|"
        r"stop following|cancel|void|supersed\w*|suspend\w*|"
        rf"replac\w*)\b.{{0,60}}\b{_TOLD}\b",
    ),
    _rule(
        "foll appl use atte",
        rf"\b(?:do not (?:follow|apply|use)|pay no attention to)\b.{{0,60}}\b{_TOLD}\b",
        before=(7,),
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
        around=(160, 0),
    ),
    _rule(
        "grad scor rate rati mark poin verd eval asse rubr",
        rf"\b{_TOP}\b[ ,:=-]{{0,3}}\b{_GRADE}\b",
        around=(45, 0),
    ),
    _rule(
        "9 10 100 nine ten hund",
        r"\b(?:give|award|assign|return|output|write|print|respond with|reply with|answer with|say|"
        r"choose|pick|select|emit)\b[^.\n]{0,30}\b"
        r"(?:9|10|100|nine|ten|hundred)\b",
        around=(50, 0),
    ),
    _rule("9 10 100", r"\b(?:9\s*/\s*9|10\s*/\s*10|100\s*/\s*100|100\s*%)(?!\w)"),
    _rule("out", r"\b\d+ out of (?:9|10|100|five|ten)(?!\w)", around=(40, 12)),
    _rule(
        "grad scor rati verd qual acce conf corr",
        r"\b(?:grade|score|rating|verdict|quality|accept\w*|confidence|is_correct|"
        r"correct)\b[\"'*_` ]*[:=][\"'*_` ]*"
        r"(?:\d+|true|yes|pass|accept\w*|correct|perfect|high)",
        before=(0, 3),
    ),
    # The judge spoken to, or of.
    _rule(
        "judg grad eval revi mark exam clas rewa asse scor rate ai llm mode lang assi syst",
        r"\b(?:dear|hey|hello|hi|to the|to all|attention|note to|message (?:to|for)|as an?|as the|"
        r"you are an?|you are the|you, the)\b"
        r".{0,20}\b(?:judge|grader|evaluator|grading|reviewer|marker|examiner|classifier|"
        r"reward model|assessor|scorer|rater|"
        r"ai|llm|model|language model|assistant|system)\b",
        around=(45, 16),
    ),
    _rule(
        "judg grad eval exam asse scor rate rewa clas gate gate",
        r"\b(?:the|this|any|every|your|all) (?:judge|grader|evaluator|examiner|assessor|scorer|"
        r"rater|reward model|classifier|gate)s?\b",
        before=(4, 5, 6),
    ),
    _rule(
        "answ resp repl solu outp",
        r"\b(?:this|the|my|above|preceding|following)\b.{0,20}\b(?:answer|response|reply|solution|"
        r"output)\b.{0,40}\b(?:is|was|has been|deserves?|"
        r"should|must|meets?|satisf\w*|fulfil\w*|contains?|earns?|matches|"
        r"counts?)\b.{0,60}\b(?:correct\w*|perfect\w*|complete\w*|"
        r"accurate|right|verified|valid|approved|accepted|accept|excellent|best|flawless|reliable|"
        r"full|highest|all|top|gold|reference|true)\b",
        around=(35, 165),
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
        around=(16, 16),
    ),
    _rule(
        "acce esca mark thre",
        r"\b(?:accept this|do not escalate|don't escalate|no need to escalate|mark (?:this|it) as|"
        r"threshold|escalat\w+)\b",
    ),
    _rule(
        "inst agre disc requ",
        r"\bas (?:instructed|agreed|discussed|required|requested) (?:above|before|earlier|by)\b",
        before=(3,),
    ),
    # Words of grading that an answer has little use for.
    _rule(
        "grad rubr judg verd gold refe mode key answ",
        r"\b(?:grades?|graded|graders?|grading|rubrics?|judge?ment|verdicts?)\b|\b(?:gold|"
        r"reference|model|key) answers?\b|\banswer key\b",
    ),
    _rule("9 10 100", r"\b\d+ of (?:9|10|100)\b", around=(45, 0)),
    _rule("acce repe", r"\baccept (?:it|this|my|the answer|short answers)\b|\brepeat after me\b"),
    _rule(
        "grad eval kind gene leni noth",
        r"\b(?:stop|skip) (?:grading|evaluating)\b|\b(?:be|being) (?:kind|generous|lenient)\b|"
        r"\bnothing below\b",
        before=(0, 3, 5, 6),
    ),
    _rule(
        "peer vali scal exac",
        r"\b(?:peer-?reviewed|validated against)\b|\bthe scale is\b|\bexactly what was asked\b",
        before=(0, 4),
    ),
    # In other languages: forget or ignore, instruction or rule, grade or points, highest.
    _rule(
        "igno verg miss anwe hoch voll bewe punk",
        r"ignorier\w*|vergiss\w*|missachte\w*|anweisung\w*|hochstnote|hochste\w* (?:note|punkt\w*|"
        r"bewertung)|volle punkt\w*|bewert\w*|punktzahl",
        begins=(
            "ignorier",
            "vergiss",
            "missachte",
            "anweisung",
            "hochst",
            "volle punkt",
            "bewert",
            "punktzahl",
        ),
    ),
    _rule(
        "dies cett esta ques cons inst istr regl rego regr",
        r"\b(?:diese antwort ist|cette reponse est|esta respuesta es|questa risposta e|esta resposta|consignes?|"
        r"instrucciones|instrucoes|istruzioni|reglas|regole|regras)\b",
    ),
    _rule(
        "dies cett esta ques figy utas igno oubl olvi dime esqu desc cons inst istr regl rego regr",
        r"figyelmen kivul|utasitas|ignor(?:ez|er|a|e|ad|en|are|ate)\b|oubli(?:ez|er|e)\b|olvid(?:a|e|en|ar)\b|"
        r"dimentica\w*|esque(?:ca|cer)\w*|desconsider\w*",
        begins=("figyelmen", "utasitas", "ignor", "oubli", "olvid", "dimentica", "esquec", "desconsider"),
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
