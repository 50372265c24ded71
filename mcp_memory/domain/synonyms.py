"""Words that mean nearly the same (defect and bug, physician and doctor), so that what was said is found by either.

Groups are narrow: of a word with several meanings only the others tell, and not the word them. Words of size and
amount are left out, since they tell too little. The index knows words by their stems, which some share with words of
other meaning (customer and custom): these are asked for as they stand, and never looked for.
"""

from __future__ import annotations

from mcp_memory.domain.stems import root

#: Of the trade and of everyday life; any word of a group may stand for any other.
_BOTH_WAYS = """
abort cancel, accelerate speedup, activate enable, adjust tweak tune, alert alarm, allow permit, alter modify change,
ambiguous unclear vague, assess evaluate, attribute property, backtrace traceback stacktrace, binary executable,
blank empty, bug defect glitch, clash conflict, cleanup tidy, column field, combine merge unify consolidate,
concurrent parallel simultaneous, convert transform, copy duplicate replicate, corrupt damaged garbled, cpu processor,
customer client, deactivate disable, debug troubleshoot, decrease reduce lower, deduplicate dedupe,
delete remove erase, deny reject refuse, deprecated obsolete outdated legacy, describe explain, detect discover,
developer programmer engineer, directory folder, discard drop, display show, distinct unique, downtime outage,
edit modify, eliminate remove, endpoint route, ensure guarantee, entry record, extension plugin addon,
fast quick rapid speedy, faster quicker, fetch retrieve, fix repair patch, flaky intermittent unstable unreliable,
flaw defect bug, forbid prohibit disallow ban, freeze hang, functionality feature, graph chart plot, halt stop cease,
handbook manual, heading title headline, ignore skip, improve enhance, incorrect wrong, increase raise,
infinite endless, inspect examine, invalid malformed, issue problem, javascript js, label tag, lag delay latency,
library package, login logon signin, logout logoff signout, macos osx mac, mandatory compulsory obligatory required,
maximum max, memory ram, minimum min, mistake error, nil null, outcome result, overview summary recap synopsis,
parameter argument, password passphrase passcode, pause suspend, permission privilege, phase stage,
pick select choose, postpone defer delay, primary main, propose suggest recommend, protect guard,
provider vendor supplier, prune trim, rationale reason cause, recover restore, redundant superfluous unnecessary,
refresh reload, replace substitute swap, reply answer, restart reboot, restructure reorganize, revert undo rollback,
separate split divide, silence mute suppress, simultaneously concurrently, slow sluggish laggy, speed performance,
spike surge, start begin commence, supply provide, technique approach method, temporary temp tmp interim, tls ssl,
tool utility, typo misspelling, upgrade update bump, url link hyperlink, validate verify, webpage website,
abroad overseas, accommodation lodging, accomplish achieve, accurate precise exact, additional extra,
adolescent teenager teen, adore love, advantage benefit, advertisement ad commercial, affect influence,
affordable cheap inexpensive, afraid scared frightened, aim goal target, aircraft airplane plane, angry furious mad,
announce declare, annual yearly, antique vintage, anxious nervous worried, apparel garment attire clothes,
arena stadium, arrange organize, arrive reach, ashamed embarrassed, attic loft, attorney lawyer, audience crowd,
authentic genuine, automobile car, award prize trophy, awful terrible horrible, baby infant newborn,
backpack rucksack, backyard yard garden, basement cellar, bathroom restroom toilet, bbq barbecue grill,
beach seaside shore, beautiful gorgeous, bet gamble, beverage drink, bicycle bike, bill invoice, bloom blossom flower,
border edge, boss manager supervisor, brave courageous, buddy pal friend, bunny rabbit, burglar thief robber,
buy purchase, cab taxi, cabin cottage, calm relaxed, campground campsite, career profession occupation, carpet rug,
cash money, castle palace, cellphone smartphone phone telephone, cemetery graveyard, ceramics pottery,
champion winner, christmas xmas, chuckle laugh, cinema theater, clever smart intelligent, closet wardrobe, clue hint,
coach trainer, coat jacket, college university, comfortable comfy cozy, company firm corporation, compassion empathy,
conceal hide, concert gig, confused puzzled, construct build, contest competition tournament, convince persuade,
cookie biscuit, cooperate collaborate, costly expensive pricey, couch sofa, couple pair, coupon voucher,
coworker colleague workmate, crazy insane, crucial essential vital, cry weep, cup mug, cure heal, cute adorable,
dad father daddy, dangerous hazardous risky, dawn sunrise, daycare kindergarten preschool, delicate fragile,
delicious tasty yummy, delighted pleased, demolish destroy, device gadget, diary journal, difficult hard tough,
dinner supper, disappear vanish, disclose reveal, discount rebate, disease illness sickness, dislike hate detest,
doctor physician, donate contribute, donut doughnut, draw sketch, drowsy sleepy, dull boring, dusk sunset,
easy simple effortless, eatery restaurant diner, eggplant aubergine, elevator lift, emotion feeling,
employee worker staff, encourage motivate inspire, enroll register, envious jealous, equipment gear,
excellent outstanding, exchange swap, exercise workout, exhausted tired fatigued, exhibit exhibition,
expert specialist, famous renowned, fashionable stylish, faucet tap, fee charge, film movie, finish complete,
flashlight torch, foolish silly, footwear shoe, fortunate lucky, fragrance perfume, fridge refrigerator,
frightening scary, fun enjoyable, funny hilarious humorous, garbage trash rubbish, gasoline petrol fuel,
gather collect, glad happy joyful cheerful, grandfather grandpa granddad, grandmother grandma granny,
grateful thankful, grief sorrow, guest visitor, handbag purse, handy useful, headphones earphones earbuds headset,
highway motorway freeway, hike trek, hire recruit, hobby pastime, holiday vacation, homework assignment, house home,
hug cuddle, hungry starving, hurry rush, hurt injure injury, husband hubby, ill sick unwell, instant immediate,
instructor teacher tutor, jail prison, jog run, journalist reporter, journey trip travel, joy happiness, kid child,
kitten cat, landscape scenery, lease rent, location place, luggage baggage suitcase, makeup cosmetics,
medication medicine, melody tune, mend repair, mist fog, modern contemporary, mother mom mama, motorbike motorcycle,
nation country, noisy loud, normal ordinary, novel book, observe notice, ocean sea, odd strange weird unusual,
opportunity chance, overweight obese, pain ache, pants trousers, particular specific, pastor priest, path trail,
peak summit, photo picture image pic, poem poetry, polite courteous, praise compliment, precious valuable,
pregnant pregnancy, price cost, promise pledge, pupil student, puppy dog pup, quiet silent, quit resign,
rare uncommon, refund reimburse, refurbish renovate remodel, region area, rehearse practice, remain stay,
risk danger hazard, rival opponent, road street, robbery theft, rude impolite, sad unhappy, salary wage paycheck,
scarf shawl, scream shout yell, sculpture statue, seldom rarely, serious severe, shut close, shy timid,
sidewalk pavement, skill ability, smell scent, soccer football, song tune, spacious roomy, speak talk, squad team,
stomach belly tummy, stunning breathtaking, subject topic theme, subway metro, sufficient enough, supervise oversee,
survey questionnaire poll, sweater jumper pullover, tale story, television tv, therapist counselor, thin slim skinny,
thrilled excited, town city, trail path, truck lorry, vacant empty, vaccine vaccination, veggie vegetable,
veterinarian vet, victory win, vocalist singer, waiter waitress, wealthy rich, wedding marriage, wifi wireless,
wonderful fantastic amazing, writer novelist
"""
#: A word, and those that may stand for it but not the other way round.
_ONE_WAY = """
append: add, architecture: design, array: list, backend: server, bandwidth: throughput, benchmark: measure,
calculate: compute, cap: limit, clobber: overwrite, codebase: repository repo, compile: build, component: part,
compress: zip gzip shrink, console: terminal, correct: fix, crash: segfault abort panic, credential: password,
deadlock: hang freeze stuck, deploy: rollout ship release, dict: dictionary map, dictionary: dict map, disk: drive,
documentation: docs manual, drop: remove delete, encrypt: cipher, enumerate: list, exception: error,
exclude: skip ignore omit, execute: run, exit: quit, experiment: trial, failure: error crash, fault: bug defect error,
flag: option switch, host: server, identical: equal, identifier: id, illegal: invalid, insert: add,
investigate: examine, invoke: call, iterate: loop, launch: start, lock: mutex, memoize: cache, migrate: move port,
modal: dialog popup, module: package library, mutex: lock, notify: alert inform, obtain: fetch,
overhaul: rewrite redesign, persist: save store, popup: dialog modal, preserve: keep retain, prevent: avoid block,
procedure: process, purge: delete remove clear, query: search, quota: limit, redesign: overhaul rewrite,
refactor: restructure rewrite cleanup, relocate: move, render: display draw, restrict: limit, resume: continue,
retain: keep preserve, routine: function, row: record, schedule: cron timetable, secure: safe,
setting: config configuration, shorten: truncate trim, shrink: reduce, signup: register, site: website,
slowdown: slow latency, snippet: excerpt, software: program application, speedup: optimize faster accelerate,
stale: outdated old, status: state, strategy: plan, string: text, stuck: hang freeze, subroutine: function,
terminate: kill stop, threshold: limit cutoff, throttle: limit, throughput: bandwidth, ticket: issue, toggle: switch,
transfer: move send, transmit: send, trigger: cause, truncate: cut trim shorten, unexpected: surprising,
uninstall: remove, unresponsive: hang freeze stuck, watch: monitor, wipe: delete erase clear, workaround: hack,
workflow: pipeline,
accident: crash collision, acquire: buy, actress: actor, aged: old, ancient: old, apartment: flat condo, autumn: fall,
bake: cook, birth: born, broth: soup, canine: dog, celebrity: star, chef: cook, chilly: cold, chore: task,
clinician: doctor, computer: laptop pc, condo: apartment flat, cord: cable, course: class, cuisine: food,
decide: choose, depart: leave, dish: meal, distant: far, drug: medication medicine, elderly: old, entrance: entry,
essay: paper, exam: test quiz, examination: exam, factory: plant, feline: cat, flee: escape, footpath: trail path,
grandchild: grandson granddaughter, gym: fitness workout, hectic: busy, income: salary wage, job: work occupation,
journal: diary, kindergarten: preschool, laptop: computer, lawn: grass, lecture: talk, lesson: class,
magazine: journal, meal: dish food, migraine: headache, mortgage: loan, nap: sleep, nightmare: dream, noise: sound,
parcel: package, pill: tablet, pistol: gun, pony: horse, profit: gain, psychiatrist: therapist,
psychologist: therapist, quarrel: argue, quilt: blanket, rainy: rain, rescue: save, research: study, reserve: book,
reside: live, retailer: shop store, rob: steal, secret: confidential, shop: store, sibling: brother sister,
sneaker: shoe, speech: talk, spouse: husband wife, stove: oven, stroll: walk, study: research, surgeon: doctor,
terrified: scared afraid, toddler: child, vehicle: car, video: clip, voyage: trip, weapon: gun, zone: area
"""
_SHARED = frozenset(
    """
    activate additional adore aged apartment assignment authentic awful busy calm celebrity cheerful comfortable
    compassion cooperate corporation customer dangerous depart developer disable documentation elevator engineer
    enjoyable excellent exception executable execute exhausted expensive experiment fashionable feeling fitness
    fortunate grateful heading identical identifier illegal inform intelligent manager medication nation normal
    option organize particular performance pleased polite programmer propose provider puzzled reporter required
    reside setting severe specific statue status stuck surprising terminal terminate thankful tired university
    useful utility wonderful
    """.split()
)


def synonyms(word: str) -> tuple[str, ...]:
    """The words that may stand for a lower-case word, which may be in any of its forms."""
    single = word if word in _SHARED else word.removesuffix("s")
    found = _TABLE.get(_key(single), ()) if single in _SHARED else _TABLE.get(root(word), ())
    return tuple(other for other in found if root(other) != root(word))


def _key(word: str) -> str:
    """By what a word of the table is asked for: its stem, or all of it if others have the same."""
    return f"={word}" if word in _SHARED else root(word)


def _table() -> dict[str, tuple[str, ...]]:
    groups = [(group, group) for group in (line.split() for line in _BOTH_WAYS.split(","))]
    pairs = (line.split(":") for line in _ONE_WAY.split(","))
    groups += [([word.strip()], others.split()) for word, others in pairs]
    table: dict[str, dict[str, None]] = {}
    for words, others in groups:
        for word in words:
            known = table.setdefault(_key(word), {})
            known.update(dict.fromkeys(other for other in others if other != word and other not in _SHARED))
    return {word: tuple(others) for word, others in table.items()}


_TABLE = _table()
