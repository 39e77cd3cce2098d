# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""What is said in made-up sessions: facts with values of one word, and talk that states none of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Subject:
    """Something of which one value at a time is true."""

    name: str
    statement: str
    """States a value, which stands in it as {}."""
    question: str
    values: tuple[str, ...]
    """Words that stand nowhere else in a session."""
    language: str = "en"

    def stated(self, value: str) -> str:
        """Return the sentence that states a value."""
        return self.statement.format(value)


SIMPLE = (
    Subject("key", "The key is in the {}.", "Where is the key?", ("kitchen", "garage", "attic", "cellar")),
    Subject(
        "door",
        "The code of the door is {}.",
        "What is the code of the door?",
        ("4711", "8302", "5519", "9064"),
    ),
    Subject(
        "flight",
        "The flight goes to {}.",
        "Where does the flight go?",
        ("Lisbon", "Oslo", "Vienna", "Dublin"),
    ),
    Subject("room", "The room number is {}.", "What is the room number?", ("217", "584", "930", "361")),
    Subject(
        "cake",
        "The cake is made with {}.",
        "What is the cake made with?",
        ("lemon", "apple", "cherry", "carrot"),
    ),
    Subject(
        "guest", "The guest is from {}.", "Where is the guest from?", ("Kenya", "Peru", "Japan", "Norway")
    ),
    Subject(
        "parcel", "The parcel is for {}.", "Who is the parcel for?", ("Anna", "Robert", "Helen", "Victor")
    ),
    Subject(
        "bus",
        "The bus leaves from the {}.",
        "Where does the bus leave from?",
        ("harbour", "museum", "stadium", "market"),
    ),
)
"""Plain English: even a tiny model reads them back, so what it gets wrong is a matter of memory."""

LANGUAGES = (
    Subject("doctor", "The doctor is {}.", "Who is the doctor?", ("Łukasz", "Zoë", "François", "Jürgen")),
    Subject("hund", "Der Hund heißt {}.", "Wie heißt der Hund?", ("Bruno", "Rex", "Fritz", "Waldi"), "de"),
    Subject(
        "quai", "Le train part du quai {}.", "De quel quai part le train ?", ("12", "37", "58", "94"), "fr"
    ),
    Subject(
        "hija", "Mi hija se llama {}.", "¿Cómo se llama mi hija?", ("Lucía", "Carmen", "Inés", "Marta"), "es"
    ),
    Subject("seat", "座席は{}です。", "座席は何ですか。", ("A17", "B42", "C63", "D85"), "ja"),
)
"""Names and numbers in several languages."""

PERSONAL = (
    Subject("sister", "My sister lives in {}.", "Where does my sister live?", ("Lyon", "Porto", "Graz")),
    Subject("bike", "I paid {} euros for the bike.", "What did I pay for the bike?", ("340", "275", "810")),
    Subject(
        "meeting",
        "We moved the meeting to {}.",
        "When is the meeting?",
        ("Thursday", "Sunday", "Monday"),
    ),
    Subject("dog", "Her dog is named {}.", "What is her dog named?", ("Biscuit", "Pepper", "Rocky")),
    Subject("allergy", "I am allergic to {}.", "What am I allergic to?", ("peanuts", "pollen", "shrimp")),
    Subject(
        "car", "John bought a {} car yesterday.", "What colour is John's car?", ("grey", "white", "purple")
    ),
    Subject(
        "work", "Please remember that I work as a {}.", "What do I work as?", ("nurse", "welder", "pilot")
    ),
    Subject(
        "screws", "You need {} screws for the shelf.", "How many screws does it need?", ("14", "22", "36")
    ),
)
"""The same in the words of a person, of other shapes."""

UNKNOWN = (
    Subject("bicycle", "The bicycle is {}.", "What colour is the bicycle?", ()),
    Subject("neighbour", "The neighbour is {}.", "What is the name of the neighbour?", ()),
)
"""What is asked although nothing was ever said of it."""

TALK = (
    (
        "What is a good way to keep bread fresh?",
        "Keep it in a paper bag, away from light, and freeze what is left.",
    ),
    ("Tell me something about clouds.", "They are drops of water so small that the air carries them along."),
    (
        "How do I write a short letter of thanks?",
        "Say what you are thankful for, and why it mattered to you.",
    ),
    ("Why do leaves fall?", "The tree lets them go when they cost it more than they give."),
    ("What should I read this summer?", "A short novel is a good start; read one that a friend has loved."),
    ("How long do I boil an egg?", "Seven minutes for a soft one, ten for a hard one."),
    ("Is it healthy to walk every day?", "Yes, half an hour a day is good for the heart and for the mood."),
    (
        "How does a bridge stand up?",
        "It leads the weight of what crosses it into the ground on both sides.",
    ),
    ("What makes music sad?", "Slow notes, a low voice, and what we remember when we hear it."),
    ("How do I sleep better?", "Go to bed at the same hour, and leave the phone outside."),
    ("Why is the sea salty?", "Rivers carry salt from the rocks, and the sun takes only the water."),
    ("How do I learn to draw?", "Look long, draw little, and do it every day."),
)
"""Exchanges that state none of the facts, each of another topic."""

__all__ = ["LANGUAGES", "PERSONAL", "SIMPLE", "TALK", "UNKNOWN", "Subject"]
