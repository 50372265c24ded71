"""How German, French, Spanish, Chinese and Japanese ask, decide, explain, report and leave open: data for `wordings`.

Only wordings that leave little doubt: a wrong kind is worse than none, since what has none is still a plain statement.
Those of languages with spaces are given as in `wordings`, by the words they turn on; none of these is an English word
unless its expression rules the English out.
"""

from __future__ import annotations

from mcp_memory.summaries.expressions import Expression

CAUSE = {
    "ursache weil deshalb deswegen": "",
    "liegt lag": r"\b(?:liegt|lag) (?:an|am|daran)\b",
    "grund problem fehler": (
        r"\b(?:grund (?:ist|war|dafür)|(?:das|ein) problem (?:ist|war|liegt)|der fehler (?:ist|war|liegt))\b"
    ),
    "problema": r"\bel problema (?:es|era|está|viene)\b",
    "problème": r"\ble problème (?:est|était|vient)\b",
    "dadurch": r"^dadurch\b",
    "vient viennent venait": r"\b(?:vient|viennent|venait) d(?:e|u|es)\b|\bvient d'",
    "cause": r"\b(?:à|la) cause\b",
    "dû due dus": r"\bes?t (?:dû|due|dus) [àa]",
    "parce": r"\bparce qu",
    "causa": r"\bla causa\b",
    "porque": "",
    "debe": r"\bse debe a\b",
    "debido": r"\bdebido a",
    "culpa": r"\bpor culpa de\b",
}
#: What leaves no doubt that something was chosen.
DECIDED = {
    "entschieden entscheidung": "",
    "bleiben": r"\bwir bleiben bei\b",
    "nehmen": r"\bwir nehmen\b",
    "verzichten": r"\bwir verzichten\b",
    "décidé décidons décision": "",
    "garde reste": r"\bon (?:garde|reste)\b(?! à)",
    "decidimos decidido decidí decisión": "",
    "quedamos": r"\bnos quedamos con\b",
}
DECISION = {
    "anstatt stattdessen": "",
    "statt": r"\bstatt\b(?! zu finden)",
    "lieu": r"\bau lieu d",
    "plutôt": r"\bplutôt que\b",
    "lugar": r"\ben lugar de\b",
    "vez": r"\ben vez de\b",
}
OUTCOME = {
    "behoben angepasst umgestellt hinzugefügt ergänzt ersetzt umbenannt eingebaut erledigt korrigiert": "",
    "entfernt geändert gelöscht verschoben erstellt geschrieben aktualisiert": (
        r"\b(?:habe?|haben|wurde|wurden|ist|sind)\b.{0,120}\b(?:entfernt|geändert|gelöscht|verschoben|erstellt|"
        r"geschrieben|aktualisiert)\b(?! noch)"
    ),
    "jetzt nun": r"\b(?:laufen|stehen|gilt|wird|werden|ist|sind|hat|haben|kann|können|\w{3,}t) (?:jetzt|nun)\b",
    "laufen": r"\btests? (?:laufen|sind) (?:durch|grün|wieder)\b",
    "corrigé corrigée ajouté ajoutée remplacé supprimé résolu désormais": "",
    "j'ai j’ai": r"\bj['’]ai (?:\w+ )?(?:\w+é|mis|écrit|fait|refait|réécrit)\b",
    "passent": r"\btests passent\b",
    "corregido arreglado solucionado añadí corregí arreglé eliminé cambié sustituí": "",
    "he": r"\bhe (?:\w+[ai]do|hecho|puesto|escrito)\b",
    "ahora": r"^ahora \w|\bahora (?:funciona|carga|pasa|usa|muestra|devuelve)",
    "pasan": r"\bpruebas pasan\b",
}
OPEN = {
    "ungeklärt": "",
    "noch": (
        r"\bnoch (?:nicht|offen|zu (?:tun|klären|erledigen))\b|\b(?:fehlt|fehlen|muss|müssen|bleibt) (?:\w+ )?noch\b|"
        r"\bsteht noch aus\b"
    ),
    "reste": r"\b(?:il )?reste (?:à|encore)\b",
    "encore": r"\bpas encore\b",
    "pendiente pendientes": "",
    "falta": r"\bfalta por\b",
    "todavía aún": r"\b(?:todavía|aún) no\b",
}
RULE = {
    "niemals": "",
    "darf dürfen": r"\b(?:darf|dürfen)\b.{0,60}\b(?:nicht|nie|kein\w*|nur)\b",
    "muss müssen": r"\b(?:muss|müssen) (?:immer|mindestens|unbedingt)\b",
    "jamais": r"\bjamais\b(?! vu)",
    "nunca": "",
}
ASKING = {
    "bitte": "",
    "kannst könntest könnt könntet": r"\b(?:kannst|könntest|könnt|könntet) (?:du|ihr)\b",
    "können könnten sollten müssen müssten": (
        r"\b(?:können|könnten|sollten|müssten) (?:sie|wir)\b|\bwir (?:sollten|müssten|müssen)\b"
    ),
    "möchte hätte brauche": r"\bich (?:möchte|hätte gern|brauche)\b",
    "favor": r"\bpor favor\b",
    "plaît plait": r"\bs'il (?:te|vous) pla",
    "favore пожалуйста": "",
    "peux pourrais pouvez pourriez": (
        r"\b(?:peux|pourrais)[- ]tu\b|\b(?:pouvez|pourriez)[- ]vous\b|\btu (?:peux|pourrais)\b"
    ),
    "faut faudrait": r"\bil (?:faut|faudrait)\b",
    "devrait": r"\bon devrait\b",
    "voudrais veux": r"\bje (?:voudrais|veux)\b",
    "j'aimerais": "",
    "puedes podrías podéis podemos podríamos": r"(?:^|\W)(?:puedes|podrías|podéis|podemos|podríamos) \w",
    "quiero necesito": r"\b(?:quiero|necesito) (?:que\b|un|una|el|la|los|las|\w+[aei]r\b)",
    "hay": r"\bhay que\b",
    "deberíamos potresti": "",
    "puoi potete": r"\b(?:puoi|potete) \w+[aei]r",
    "você poderia": r"\b(?:você pode|poderia)\b",
}
PROBLEM = {
    "kaputt fehlerhaft abgestürzt fehlschlägt": "",
    "nicht": r"\b(?:funktioniert|funktionieren|geht|gehen|klappt|lädt|startet)\b.{0,40}\bnicht\b",
    "fehler": r"\bfehler\b(?!meldung soll)",
    "fehlt fehlen": r"\b(?:fehlt|fehlen)\b(?! noch)",
    "ab": r"\bstürzt .{0,40}\bab\b",
    "fehl": r"\bschl(?:ägt|agen) .{0,40}\bfehl\b",
    "plus pas": r"\bn(?:e |['’])\w+ (?:plus|pas)\b",
    "erreur plante échoue échouent cassé cassée": "",
    "funciona funcionan": r"\bno funcionan?\b",
    "falla fallan cuelga roto rota": "",
    "queda": r"\bse queda (?:en blanco|colgad|bloquead)",
    "deja": r"\bno (?:me )?deja\b",
    "funciona funziona funzionano": r"\b(?:não funciona|non funziona(?:no)?)\b",
}
REASON = {
    "weil damit sonst": r"\b(?:weil|damit|sonst)\b",
    "parce": r"\bparce qu",
    "porque": "",
    "statt": "",
    "lieu": r"\bau lieu d",
}

#: Words with which one asks for something to be done.
IMPERATIVES = frozenset(
    """
    schreib schreibe mach behebe behebt korrigiere ändere füge ergänze entferne lösche ersetze erstelle prüfe überprüfe
    benenne verschiebe erkläre zeig baue aktualisiere lösch leg lege nimm nutze verwende teste
    ajoute ajoutez corrige corrigez supprime supprimez remplace remplacez écris écrivez vérifie vérifiez renomme crée
    explique montre
    añade agrega arregla corrige elimina sustituye escribe revisa comprueba cambia crea explica muestra mueve
    """.split()
)

#: The same kinds where words are not spaced, best known first.
UNSPACED_ASKING = Expression(
    r"请|麻烦|帮我|帮忙|吗[?？]?$|一下[。！!]?$|^(?:再|也|顺便)?(?:加|改|写|删|换|把)|ください|下さい|ほしい|お願い|頼む|してくれ|もらえ|できますか|て[。！!]?$|주세요|해줘"
)
UNSPACED_PROBLEM = Expression(
    r"エラー|不具合|失敗|動かな|動きません|落ち(?:る|ます|て)|バグ|おかしい|真っ白|报错|错误|失败|无法|崩溃|卡住|太慢|这么慢|不工作"
)
UNSPACED_DECIDED = Expression(r"决定|決定|決めまし|ことにし")
UNSPACED = (
    ("decision", Expression(r"决定|決定|決め|ことにし|ではなく|代わりに|而不是|选择了|改用")),
    ("cause", Expression(r"原因|导致|由于|因为|のせい|ためでした|が理由")),
    ("open", Expression(r"还没|尚未|未完成|待办|まだ.{0,20}(?:ない|ませ|ていな)|未対応|残って|未解決|今後の課題")),
    (
        "outcome",
        Expression(
            r"已(?:经)?(?:修|改|添|加|完|删|更|解|实)|修复了|解决了|完成了|修正し|直しまし|追加し(?:ま|た)|変更し(?:ま|た)|"
            r"実装し(?:ま|た)|削除し(?:ま|た)|統一し|対応しまし|完了し|成功し"
        ),
    ),
    ("rule", Expression(r"必须|不得|禁止|务必|必ず|しないで|してはいけ")),
    ("finding", UNSPACED_PROBLEM),
)

#: With what one greets what was done, before one goes on.
INTERJECTIONS = "super|prima|perfekt|gut|danke|genial|perfecto|vale|gracias|parfait|merci|d'accord|grazie|perfetto"
UNSPACED_INTERJECTIONS = (
    r"(?:ありがとう(?:ございます|ございました)?|了解(?:です)?|いいですね|谢谢|好的|很好)[。！!、，,]+\s*"
)
#: That all is well, which goes without saying.
ROUTINE = (
    r"(?:alle |die |sämtliche )?(?:\d[\d.,]* )?(?:tests?|prüfungen) (?:sind|laufen)(?: wieder| jetzt| alle)*"
    r"(?: durch| grün)?[.! ]*|"
    r"(?:todas |todos )?(?:las |los )?(?:\d[\d.,]* )?(?:pruebas|tests)(?: ya)? pasan(?: sin errores)?[.! ]*|"
    r"(?:tous )?(?:les )?(?:\d[\d.,]* )?tests passent(?: tous)?[.! ]*|"
    r"(?:テスト|全テスト)[はも]?\d*件?(?:すべて|全て|全部)?(?:が)?(?:成功|通過|パス|通り)[^。]{0,8}[。！]?|"
    r"(?:所有|全部)?(?:\d+ ?个)?测试(?:都|全部|均)?(?:已)?通过(?:了)?[。！]?"
)
#: What stands before a request in other languages, for a text in small letters.
POLITE = (
    r"(?:hallo|guten (?:morgen|tag|abend)|moin|bonjour|salut|hola|buen(?:os|as) (?:días|tardes)|ciao|buongiorno|olá|"
    r"danke|merci|gracias|grazie|obrigad[oa]|bitte|s'il (?:te|vous) plaît|por favor|per favore)\b[\s,.!:;—–-]*|"
    r"(?:super|genial|perfekt|prima|stimmt|genau|okay|gut|parfait|très bien|d'accord|vale|perfecto|muy bien|perfetto|"
    r"perfeito|va bene)[,.!;]+\s+|"
    r"(?:dann |und |also )?(?:kannst|könntest|könnt) (?:du|ihr)(?: (?:dir|mir|uns|bitte|mal|auch|noch|eben))*\s+|"
    r"(?:dann |und |also )?(?:können|könnten|sollten|müssten) (?:wir|sie)(?: (?:bitte|mal|auch|noch))*\s+|"
    r"(?:dann )?wir (?:sollten|müssten|müssen)(?: (?:auch|noch))*\s+|ich (?:möchte|hätte gern|brauche)(?:,? dass)?\s+|"
    r"(?:est-ce que )?(?:tu (?:peux|pourrais)|vous (?:pouvez|pourriez)|(?:peux|pourrais)-tu|(?:pouvez|pourriez)-vous)"
    r"(?: (?:aussi|me|nous))*\s+|il (?:faut|faudrait)(?: aussi)?(?: que)?\s+|on devrait\s+|"
    r"(?:je (?:voudrais|veux)|j'aimerais)(?: que)?\s+|"
    r"(?:ahora|luego|jetzt|nun|dann|maintenant|ensuite)(?: (?:también|auch|noch|aussi|bitte|mal))*\s+|"
    r"¿?(?:puedes|podrías|podéis|podemos|podríamos)\s+|(?:quiero|necesito)(?: que)?\s+|hay que\s+|deberíamos\s+|¿|"
    r"(?:puoi|potresti|potete|potremmo|(?:você )?poderia|você pode|podes)\s+|"
    r"(?:vorrei|dobbiamo|precisamos)(?: di| de)?\s+"
)
#: With what one asks to be told something.
WH = (
    "was|wie|warum|wieso|wo|wann|wer|welche[rs]?|comment (?:est|on|faire|se|ça|peut)|pourquoi|où|quand|quel(?:le)?s?|"
    "qué|cómo|dónde|cuándo|cuál"
)
#: Articles before a title of another language.
ARTICLES = Expression(r"(?:der|die|das|den|dem|ein|eine|einen|le|la|les|un|une|el|los|las|una)\s+|l['’](?=\w)")
#: A question for the cause, where what it asks about is a statement without these words.
WHY = Expression(
    r"(?:warum|wieso|weshalb) (?:werden|wird|wurden|wurde|ist|sind|war|waren)\s+|"
    r"(?:pourquoi(?: est-ce que)?|por qué|perché|porque) (?=(?:le|la|les|el|los|las|il|lo|i|gli|o|os|as)\s)"
)
#: What goes on with a name, and what stands before one.
OF = frozenset("à de du des d' von del di da do".split())
PREPOSITIONS = frozenset(
    """
    depuis dans pour avec sur par sans vers chez pendant von für mit seit nach bei auf ohne während durch wegen über
    desde para con por hasta sobre durante sin entre
    """.split()
)
#: Where a clause of another language ends.
CLAUSE = Expression(
    r"[.!?…;:](?:\s+|$)|,\s+|\s[-–—]\s|\s(?=(?:weil|aber|sondern|denn|obwohl|sodass|parce|mais|car|afin|alors|porque|pero|"
    r"aunque|sino)\s)"
)
_ENGLISH = frozenset("the of and to is it that for this with are be we you not can from add use".split())
#: Words of other languages that are also English ones, or names.
_EITHER = frozenset(
    """
    plus per was war die son com met par sur sin hat con le la el en des un du se si ya favor genial fait van den las
    los tout puis par mal ins des solo pour son
    """.split()
)


def is_other(words: frozenset[str], known: frozenset[str]) -> bool:
    """Whether a sentence, given by its words, is of another European language, whose commonest words are `known`."""
    found = words & known
    clear = len(found - _EITHER)
    return (clear > 1 or (clear == 1 and len(found) > 2)) and len(found) > 2 * len(words & _ENGLISH)


#: How a request ends, or begins, where words are not spaced; the title does without.
REQUEST_TAIL = Expression(
    r"(?:を(?:直|治)して|を修正して|して|て)?(?:ください|下さい|ほしい(?:です)?|お願いします|もらえますか|くれますか|"
    r"いただけますか)[。！!？?]*$"
)
#: A look that is asked for at the end, after what is wrong.
HELP_TAIL = Expression(r"[,，、。](?:请|麻烦你?)?(?:帮我|帮忙)(?:看|查|想|分析|检查)[^，。]{0,10}[。！!？?]*$")
REQUEST_HEAD = Expression(
    r"(?:请|麻烦)?(?:你|您)?(?:帮我|帮忙|帮)?(?:看一下|看看|检查一下|检查|查一下|修复一下)?(?:为什么)?(?=\S{4})"
)
