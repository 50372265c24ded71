"""Words that tell little by themselves: data for `keywords`."""

from __future__ import annotations

from mcp_memory.domain.text import stem

#: Words so common in coding talk that alone they say little.
GENERIC = frozenset(
    """
    able access add added adding additional agent approach base behavior build call case change changed changes
    check clean code command comment complete context correct create created current currently data default detail
    different directly empty ensure error example exist existing expect expected explain fail failed failing feature
    field file files fine first fix fixed fixes flow full function handle have implement implemented implementation
    include info input instead issue issues item job key keep kind level line lines list logic look main method
    missing mode module name need new note number object old option order original output part pass passed path
    people place plan point possible previous problem process project proper properly question read ready real
    reason remove replace repo request require required result return run running second see separate session set
    setup show simple single small start state step still string structure summary system task test tests text time
    today tomorrow tool true type unit update updated updating use used user users using value variable various
    verify version want way week work working works write wrong year yesterday day days month actual actually
    examine understand specifically moment potential comprehensive clear clearly necessary confirm details sure
    similar careful carefully err bin tmp etc txt photo shared thing feel feeling love amazing cool glad happy hear
    sounds wonderful guess bit exciting two three four five six seven eight nine ten half minute hour morning coffee
    lunch agreed argument meeting bother bothers complain complained held hold
    """.split()
)
GENERIC_STEMS = frozenset(stem(word) for word in GENERIC)

# Words of any talk: a sentence may turn on one of them, but nobody would look for it by one.
_COMMON = """
    accept afraid agree ahead alike alone amount annoying apart apparent appear apply arrive available avoid aware
    awkward bad bare basic become begin behave behind believe belong bet big bottom break brief bring broad broken
    busy carry catch cause certain chance cheap choice choose close closely combine comfortable common compare
    complex concern confuse consider consist contain convenient couple cut deal decide deep depend describe deserve
    despite differ difficult direct discuss do doubt drop due each early easy effort eh end enough entirely equal
    especially even eventually evident exact except extra fact fair fairly fall familiar far fast fault favour few
    fill final find fit follow forget former forward free fresh front gain general gently glance grow hand handy
    happen hard hardly heavy hence hide high hint hit hope huge idea identical ignore imagine immediately important
    improve increase indicate inner inside intend interest invent involve jump keen know large late latter lead
    leave left let light live long lose loud low luck lucky maintain major manage matter maybe meet mention mere
    mess middle mind minor mistake mix modest naming narrow natural neat negative nice normal notice obvious occur
    odd offer opinion opposite ordinary outer outside partial particular pay perform permanent pick plain pleasant
    plus poor positive practical prefer prepare present prevent probable proceed produce promise proof prove provide
    pull pure purpose push quick quiet raise rare reach react realize recent recommend reduce refer regard regular
    relate relative rely remain remark remember remind repeat represent respect respond rest reveal rid rough round
    rush sad safe save scary sense sensible serious serve shape short shorter shut side silly skip slight slow smart
    smooth solid solve sound speak special specific spend spot stand stay stick stop straight strange strong stuck
    stupid subtle succeed sudden suffer suggest suit suppose surprise surprising suspect sweet talk tend term
    terrible thin touch tough trick trouble turn twist typical ugly unable unclear unlucky unusual upper useful
    useless usual vague visible visit wait walk warn waste watch weak weird whole wide wise wonder worry worse worst
    worth wrap
""".split()
COMMON_STEMS = GENERIC_STEMS | {stem(word) for word in _COMMON}


def _compared(quality: str) -> tuple[str, str]:
    """A quality in its comparative and its superlative: early, earlier, earliest."""
    base = quality.removesuffix("e")
    if quality.endswith("y"):
        base = f"{quality[:-1]}i"
    elif quality in ("big", "thin"):
        base = f"{quality}{quality[-1]}"
    return f"{base}er", f"{base}est"


#: Words with which things are compared: a sentence may turn on `older`, but nobody would look for it by that.
COMPARING = frozenset(
    form
    for quality in """
    big brief broad cheap clean clear close cool deep early easy fair fast few fine fresh full great hard heavy high
    huge large late light long loud low narrow near neat new nice old plain poor pure quick quiet rare rough safe short
    simple slow small smart smooth soft strange strict strong thin tiny tough ugly warm weak weird wide wise young
    """.split()
    for form in _compared(quality)
)

#: The commonest words of other European languages: no stop words of the index, but no keywords either.
FOREIGN = frozenset(
    """
    aber alle allen alles als alte alten auch auf aus bei bitte braucht das dass dem den der des die doch ein eine einem
    einen einer für hat haben hatte hier ich ihn ihr ins ist jetzt kein keine kann mach machen mit nach nicht noch nur
    oder sich sie sind und uns von war was weil wenn werden wie wird wurde wir zum zur avec ce ces cette dans elle est
    et faire il ils je la le les leur mais nous ou par pas plus pour que qui sont sur une vous à como con del el en esta
    este hay los las más muy para pero por porque ser sin son una uno che della gli non per più questa questo sono aan
    dat een het maar met niet ook voor van zijn com não uma você
    gestern heute dann dadurch dabei schon immer diese dieser dieses diesem wieder muss müssen soll sollen sollte
    sollten können könnte könnten kannst möchte danke hallo stimmt genau dir mir würde würden worden habe sowie
    beim seit vom dürfen darf ohne gilt jetzt steht gibt bonjour merci accord parfait aussi été être soient peux peut
    avoir fait cela ça tout tous toute depuis encore puis donc alors quand cette aux des du un au se ne hola gracias
    genial favor puedes puede mirar pasa qué queda solo sólo ahora también está están sobre cuando hacer cómo dónde
    desde hasta entre lo le les se si ya su sus ciao grazie adesso però degli dopo ancora molto puoi thx pls whats gonna
    wanna lol
    """.split()
)

#: The same of languages without spaces.
UNSPACED_COMMON = frozenset(
    "很好 好的 谢谢 一下 可以 什么 怎么 这个 那个 没有 现在 今天 確認 了解 お願い 一つ 今回 場合".split()
)

#: Names that look like ordinary words with a capital.
PRODUCTS = frozenset(
    """
    airflow android angular ansible apache azure bitbucket cargo celery chrome claude cloudflare codex copilot cursor
    dependabot django docker elasticsearch electron express fastapi fastify firebase firefox flask flutter gemini git
    gitlab google grafana gradle hadoop helm heroku java jenkins jest jira kafka kotlin kubernetes lambda laravel linux
    maven mongo mongodb nginx node numpy ollama pandas php playwright postgres postgresql prisma prometheus pydantic
    pytest python pytorch rabbitmq rails react redis redux rollup ruby rust safari sentry slack snowflake spark sqlite
    stripe svelte swift tailwind terraform typescript ubuntu unity unreal vault vercel vite vue webpack windows xcode
    zustand
    """.split()
)

#: Verbs that stand beside nouns so often that the pair is no name of anything.
VERBS = frozenset(
    stem(word)
    for word in """
    add allow appear apply ask avoid call cause change check come commit contain create do ensure exceed exist
    expect fail fall find fix get give handle happen have include keep let look make match mean move need pass push
    put read refer reject remove rename replace return run see set show start stop take think try update use verify
    want work write hear sound love feel guess ship install explain suggest assign open resolve
    brought came chose did found gave got had heard held kept knew left lost made meant put ran said saw sent thought
    told took went wrote
    """.split()
)
