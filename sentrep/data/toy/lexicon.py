"""The words of the toy corpus: every value of every meaning slot with its synonyms.

An entry of `_SCENES` (two lines) is one scene of a domain: who | does what | to what | where. Synonyms are separated by
commas. A verb is given as base and past, and as base, past and participle where the last two differ. Any agent, action,
object and place of a domain make a grammatical sentence together; no phrase belongs to two values of a slot.
"""

from __future__ import annotations

from typing import NamedTuple


class Verb(NamedTuple):
    """The forms of a verb that the templates need."""

    base: str
    past: str
    participle: str


class Domain(NamedTuple):
    """A topic: for each slot its values in the order of the scenes, each value a tuple of synonyms."""

    agents: tuple[tuple[str, ...], ...]
    actions: tuple[tuple[Verb, ...], ...]
    objects: tuple[tuple[str, ...], ...]
    places: tuple[tuple[str, ...], ...]


_SCENES = {
    "kitchen": """
chef, cook, kitchen boss | prepare prepared, make made, whip_up whipped_up |
    soup, broth, stew | in the kitchen, at the stove
waiter, server, table steward | serve served, dish_up dished_up, carry_out carried_out |
    salad, bowl of leaves, green starter | on the terrace, at the outdoor tables
baker, bread maker, pastry cook | burn burned, scorch scorched, char charred |
    loaf, bread, sourdough | in the bakery, by the oven
food critic, reviewer, restaurant judge | taste tasted, sample sampled, try tried |
    cake, dessert, sweet tart | in the restaurant, at the bistro
diner, hungry guest, eater | eat ate eaten, devour devoured, swallow swallowed |
    fish, trout, grilled salmon | at the banquet, at the feast
""",
    "hospital": """
doctor, physician, medical officer | examine examined, check_over checked_over, assess assessed |
    patient, sick person, invalid | in the hospital, at the clinic
nurse, ward sister, carer | bandage bandaged, patch_up patched_up, dress dressed |
    child, toddler, infant | on the ward, beside the sickbed
surgeon, operating consultant, theatre specialist | sedate sedated, numb numbed, put_to_sleep put_to_sleep |
    victim, casualty, injured man | in the operating room, in the surgical theatre
medic, ambulance worker, rescuer | carry carried, lift lifted, transport transported |
    soldier, trooper, army private | in the ambulance, at the scene of the crash
therapist, counsellor, psychologist | comfort comforted, console consoled, reassure reassured |
    widow, grieving woman, mourner | in the therapy room, on the counselling couch
""",
    "school": """
teacher, schoolmaster, tutor | explain explained, clarify clarified, go_over went_over gone_over |
    equation, formula, algebra problem | in the classroom, at the blackboard
pupil, student, schoolgirl | copy copied, transcribe transcribed, duplicate duplicated |
    essay, homework, composition | at the school desk, in the study hall
headmaster, principal, head of the school | recite recited, read_aloud read_aloud, declaim declaimed |
    poem, verse, rhyme | in the assembly hall, on the school stage
librarian, keeper of the books, archivist | lend lent, loan loaned, give_out gave_out given_out |
    textbook, manual, study guide | in the library, between the bookshelves
examiner, marker, grader | mark marked, correct corrected, grade graded |
    test, exam, quiz | in the exam hall, in the testing room
""",
    "sport": """
goalkeeper, goalie, keeper of the net | catch caught, grab grabbed, save saved |
    ball, football, leather sphere | in front of the goal, on the goal line
striker, forward, scorer | kiss kissed, hug hugged, embrace embraced |
    trophy, cup, silver prize | in the stadium, at the arena
referee, umpire, match official | drop dropped, let_fall let_fall, fumble fumbled |
    whistle, pea whistle, signal pipe | on the pitch, on the playing field
coach, trainer, team boss | throw threw thrown, toss tossed, fling flung |
    jersey, team shirt, kit | in the dressing room, by the lockers
fan, supporter, spectator | wave waved, swing swung, brandish brandished |
    flag, banner, club scarf | in the stands, on the terraces
""",
    "music": """
pianist, piano player, keyboard artist | play played, perform performed, interpret interpreted |
    sonata, piano piece, nocturne | in the concert hall, at the grand piano
singer, vocalist, soprano | sing sang sung, hum hummed, croon crooned |
    ballad, love song, slow tune | at the opera, on the concert stage
drummer, percussionist, beat keeper | record recorded, tape taped, capture captured |
    march, parade music, military air | in the recording studio, at the sound desk
conductor, maestro, orchestra leader | rehearse rehearsed, practise practised, run_through ran_through run_through |
    symphony, orchestral work, overture | in the rehearsal room, in the orchestra pit
composer, songwriter, melody writer | compose composed, arrange arranged, score scored |
    waltz, dance tune, minuet | in the music room, at the conservatory
""",
    "farm": """
farmer, grower, rancher | feed fed, fatten fattened, nourish nourished |
    pig, hog, swine | in the barn, in the sty
shepherd, herder, drover | drive drove driven, round_up rounded_up, muster mustered |
    sheep, ewe, lamb | on the hill, in the pasture
milkmaid, dairy worker, milker | wash washed, scrub scrubbed, hose_down hosed_down |
    cow, heifer, dairy animal | in the cowshed, in the milking parlour
vet, animal doctor, livestock healer | vaccinate vaccinated, inoculate inoculated, immunise immunised |
    goat, billy, horned kid | in the pen, behind the fence
groom, stable boy, horse keeper | brush brushed, comb combed, rub_down rubbed_down |
    horse, mare, pony | in the stable, at the paddock
""",
    "harbour": """
captain, skipper, ship commander | steer steered, navigate navigated, pilot piloted |
    ferry, passenger vessel, steamer | out at sea, on the open water
fisherman, angler, net hauler | row rowed, paddle paddled, scull sculled |
    boat, dinghy, skiff | on the lake, in the bay
diver, frogman, underwater explorer | raise raised, salvage salvaged, bring_up brought_up |
    wreck, sunken hull, lost galleon | on the reef, under the waves
docker, dock worker, stevedore | load loaded, stow stowed, fill_up filled_up |
    freighter, cargo ship, container carrier | in the harbour, at the quay
pirate, buccaneer, sea robber | plunder plundered, loot looted, ransack ransacked |
    yacht, sailing craft, schooner | near the island, off the coast
""",
    "court": """
judge, magistrate, justice of the peace | read read, peruse perused, look_through looked_through |
    verdict, ruling, judgment | in the courtroom, at the bench
lawyer, attorney, barrister | dispute disputed, contest contested, challenge challenged |
    contract, legal agreement, deed | in the law firm, in the chambers
witness, bystander, onlooker | sign signed, endorse endorsed, initial initialled |
    statement, testimony, sworn account | in the witness box, on the stand
detective, investigator, sleuth | find found, discover discovered, uncover uncovered |
    evidence, proof, clue | at the crime scene, in the dark alley
thief, burglar, crook | destroy destroyed, wipe_out wiped_out, erase erased |
    confession, admission of guilt, plea | in the prison, behind bars
""",
    "garage": """
mechanic, car fixer, motor technician | repair repaired, fix fixed, mend mended |
    engine, motor, gearbox | in the garage, in the workshop
driver, motorist, chauffeur | crash crashed, smash smashed, total totalled |
    car, automobile, sedan | on the motorway, on the highway
dealer, car seller, showroom agent | sell sold, trade traded, auction auctioned |
    van, delivery wagon, minibus | in the showroom, at the car lot
racer, speedster, rally champion | polish polished, shine shined, buff buffed |
    motorbike, motorcycle, scooter | on the race track, at the circuit
tow man, breakdown helper, roadside patrol | tow towed, haul hauled, drag dragged |
    truck, lorry, trailer | on the hard shoulder, at the roadside
""",
    "laboratory": """
astronomer, stargazer, sky watcher | adjust adjusted, calibrate calibrated, fine_tune fine_tuned |
    telescope, spyglass, star finder | at the observatory, under the dome
chemist, lab scientist, reagent expert | heat heated, warm_up warmed_up, boil boiled |
    flask, test tube, glass vial | in the laboratory, at the lab table
engineer, inventor, builder of machines | assemble assembled, put_together put_together, construct constructed |
    robot, android, automaton | in the robotics hall, on the assembly line
astronaut, cosmonaut, space traveller | launch launched, send_up sent_up, fire_off fired_off |
    rocket, spacecraft, space shuttle | at the launch site, on the space station
programmer, coder, software developer | reboot rebooted, restart restarted, switch_on switched_on |
    computer, laptop, server rack | in the data centre, at the keyboard
""",
    "garden": """
gardener, groundskeeper, lawn keeper | plant planted, sow sowed sown, dig_in dug_in |
    rose, rosebush, red blossom | in the garden, in the flower bed
florist, flower seller, bouquet maker | wrap wrapped, bundle bundled, tie_up tied_up |
    tulip, spring bulb, daffodil | in the flower shop, at the market stall
beekeeper, honey maker, hive owner | pick picked, pluck plucked, gather gathered |
    lavender, scented herb, thyme | in the meadow, by the hives
forester, woodsman, ranger | chop chopped, fell felled, saw_down sawed_down |
    oak, tall tree, old elm | in the forest, in the woods
grandmother, granny, old lady next door | water watered, sprinkle sprinkled, moisten moistened |
    tomato, vegetable plant, cucumber | in the greenhouse, under the glass roof
""",
    "office": """
manager, supervisor, department head | approve approved, sign_off signed_off, accept accepted |
    budget, spending plan, cost estimate | in the meeting room, at the conference table
secretary, receptionist, personal assistant | type typed, write_out wrote_out written_out, key_in keyed_in |
    letter, note, memo | at the front desk, in the reception area
accountant, bookkeeper, auditor | calculate calculated, work_out worked_out, tally tallied |
    invoice, bill, account statement | in the finance department, in the back office
intern, trainee, office junior | print printed, run_off ran_off run_off, photocopy photocopied |
    report, summary paper, document | at the copier, beside the printer
director, chief executive, company president | present presented, announce announced, unveil unveiled |
    strategy, business plan, road map | in the boardroom, on the top floor
""",
}

_TIMES = """
at dawn, at sunrise, at first light
at noon, at midday, around lunch
at night, after dark, late in the evening
yesterday, the day before today
last winter, in the cold season, during the snowy months
last summer, in the hot season, during the warm months
at the weekend, on Saturday, on Sunday
a century ago, long ago, in the distant past
"""

_MANNERS = """
quickly, swiftly, in a hurry
slowly, without haste, at a leisurely pace
carefully, with great care, cautiously
quietly, silently, without a sound
happily, cheerfully, with a smile
angrily, furiously, in a rage
secretly, in secret, unseen by others
clumsily, awkwardly, without any skill
"""


def _phrases(cell: str) -> tuple[str, ...]:
    return tuple(phrase.strip() for phrase in cell.split(","))


def _verb(phrase: str) -> Verb:
    base, past, *participle = (form.replace("_", " ") for form in phrase.split())
    return Verb(base, past, participle[0] if participle else past)


def _domain(table: str) -> Domain:
    rows = [[_phrases(cell) for cell in line.split("|")] for line in table.replace("|\n", "|").strip().splitlines()]
    agents, verbs, objects, places = zip(*rows, strict=True)
    actions = tuple(tuple(_verb(verb) for verb in synonyms) for synonyms in verbs)
    return Domain(agents, actions, objects, places)


def _values(table: str) -> tuple[tuple[str, ...], ...]:
    return tuple(_phrases(line) for line in table.strip().splitlines())


DOMAINS: tuple[Domain, ...] = tuple(_domain(table) for table in _SCENES.values())
TIMES: tuple[tuple[str, ...], ...] = _values(_TIMES)
MANNERS: tuple[tuple[str, ...], ...] = _values(_MANNERS)
