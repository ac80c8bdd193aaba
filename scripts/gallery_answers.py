"""Texts in docs/gallery.md: handwritten answers for each block of each example, in order."""

from __future__ import annotations

from typing import Any

__all__ = ("ANSWERS",)

FEATURE: dict[str, list[Any]] = {
    "advocate": [
        "It passed every test we have, and searches that find nothing fell from 9% to 4% in the trial.",
        "Then ship it to a tenth of the users: that is the load test, with people who asked for it.",
    ],
    "skeptic": [
        "The trial had 300 users. Monday has 40,000, and nobody has measured what the index does then.",
        "A tenth of Monday is still 4,000 users on an index that has seen 300. One afternoon of load tests costs less.",
    ],
    "judge": [
        {
            "reasoning": "Nobody answered the load with a figure. A tenth came close, and is more than was tried.",
            "winner": "the new search should wait for the load test",
            "verdict": "Test the load first; then a tenth of the users.",
        }
    ],
    "synthesizer": [
        {
            "decision": "Run the load test this afternoon, then ship to a tenth of the users.",
            "rationale": "The trial shows that the search is better, and says nothing about Monday's load.",
        }
    ],
}

RANKED = {"Ada": ["Ben", "Ada", "Cleo"], "Ben": ["Ben", "Cleo", "Ada"], "Cleo": ["Ben", "Cleo", "Ada"]}

ANSWERS: dict[str, dict[str, list[Any]]] = {
    "feature_debate": FEATURE,
    "moderated_debate": {
        "moderator": [
            "look_up",
            {
                "reason": None,
                "next_speakers": ["mover", "stayer"],
                "briefing": "p95 is 240 ms now, 90 ms in a test in the other region",
                "new_angle": "Is it worth 1,200 EUR a month?",
                "done": False,
            },
            {
                "reason": None,
                "next_speakers": ["stayer", "mover"],
                "briefing": None,
                "new_angle": "What happens to the data?",
                "done": True,
            },
        ],
        "mover": [
            "Customers wait 240 ms where 90 would do.",
            "The data moves in one night; it is 80 GB.",
        ],
        "stayer": [
            "Nobody has complained about 240 ms; the bill would go up by 1,200 EUR.",
            "Our contract says that customer data stays where it is until March.",
        ],
        "judge": [
            {
                "reasoning": "The contract was not answered.",
                "winner": "the checkout service should stay",
                "verdict": "Stay until March, then decide with the contract in hand.",
            }
        ],
    },
    "three_sides": {
        "hawk": ["Inflation eats cash at 3% a year.", "In ten years shares have beaten cash in nine."],
        "dove": ["We may need the money in May.", "The tenth year was 2022, and we needed the money then."],
        "owl": ["Half can wait, half cannot.", "Half in cash covers eight months of salaries."],
        "judge": [
            {
                "reasoning": "Only the owl said how long the cash would last.",
                "winner": "split the reserve evenly",
                "verdict": "Half in cash is what we cannot do without.",
            }
        ],
        "synthesizer": [{"shares_percent": 50, "cash_percent": 50, "why": "eight months of salaries stay in cash"}],
    },
    "custom_debater": {
        "keeper": ["It has parsed everything for six years.", "Nobody starts it cold but us."],
        "judge": [
            {
                "reasoning": "The figures were not answered.",
                "winner": "the old parser is too slow",
                "verdict": "12 s is too long.",
            }
        ],
    },
    "budget_guard": {
        "writer": ["A document can be read at seven and at nine.", "Questions can be asked in the margin."],
        "talker": ["Nobody reads it; everybody comes to the meeting.", "And answered a day later."],
        "judge": [
            {
                "reasoning": "The day that an answer takes was not denied.",
                "winner": "it should stay a meeting",
                "verdict": "Meet, but for fifteen minutes.",
            }
        ],
    },
    "stop_early": {
        "reader": ["Families are free on Sundays.", "412 people asked for it in the survey."],
        "staff": ["Nobody asked us.", "It takes 3 people and 900 EUR a Sunday."],
        "judge": [{"reasoning": "Both have figures.", "winner": None, "verdict": "Try one Sunday a month."}],
    },
    "debate_in_a_pipeline": {
        "yes": ["One rule, fewer arguments."],
        "no": ["Teams differ, and nothing breaks."],
        "judge": [
            {
                "reasoning": "Nothing was said to break.",
                "winner": "it should be left to each team",
                "verdict": "Leave it.",
            }
        ],
    },
    "streaming": {
        "swift": [
            "Half of our reviews are of one line, and wait for two hours.",
            "Tests would have found both; reviewers did not.",
        ],
        "careful": [
            "Both outages of this year were one line.",
            "There was no test. Whoever reviews a line asks for one.",
        ],
        "judge": [
            {
                "reasoning": "The two outages were not explained away.",
                "winner": "every change needs a review",
                "verdict": "Review every change, one-line changes within the hour.",
            }
        ],
    },
    "resilient_debate": {
        "rider": ["The train was full in its last year.", "It replaced 40,000 flights."],
        "treasurer": ["It cost 11 M a year, for one line.", "The same money buys an hourly train on six lines."],
        "neighbour": ["It passes eight bedrooms at four.", "the provider is down"],
        "judge": [
            {
                "reasoning": "Six lines were not answered.",
                "winner": "the money should go to regional lines",
                "verdict": "Regional lines first.",
            }
        ],
    },
    "formats": {
        "audience-before-1": [{"reason": "Ambulances stand in the same queue.", "choice": "cars should be banned"}],
        "audience-before-2": [{"reason": "My customers come by car.", "choice": "cars should stay"}],
        "audience-before-3": [{"reason": "The bus is empty today.", "choice": "cars should stay"}],
        "debater-Ida": [
            "On Mill Street 4,100 cars a day went away, and the air got better by a third.",
            "Which shop on Mill Street has closed since?",
            "The bakery says that takings fell in the first summer, and not after it.",
            "One bakery in one summer: that is all that was found against it.",
            "Give the street back to those who live in it.",
            "Two million for the bus lanes. The garage under the square cost nine.",
        ],
        "debater-Otto": [
            "Half of the shops live on people from the villages, and no bus goes there after six.",
            "None has closed, but one has lost a tenth.",
            "What did the bakery on Mill Street tell the council?",
            "Whoever bans cars first has to send the bus.",
            "Buses first, then the ban.",
            "Two million, and a bus at night to eleven villages that nobody has priced.",
        ],
        "audience-1": [
            {"reason": "The bakery did not convince me.", "choice": "cars should be banned"},
            {"reason": "Nine million for a garage.", "choice": "cars should be banned"},
        ],
        "audience-2": [
            {"reason": "No shop has closed.", "choice": "cars should be banned"},
            {"reason": "Nobody has priced the buses.", "choice": "cars should stay"},
        ],
        "audience-3": [{"reason": "Where is the bus?", "choice": "cars should stay"}],
    },
    "record_and_replay": {
        "keeper": ["Whoever is ill can see it.", "It can be deleted after a week."],
        "guard": ["People say less when it is on.", "A week is long for a careless word."],
        "judge": [
            {
                "reasoning": "Silence costs more.",
                "winner": "meetings should stay unrecorded",
                "verdict": "Record only when somebody asks.",
            }
        ],
    },
    "own_server": {
        "yes": ["Bread on two sides, filling between.", "A sub is joined on one side too."],
        "no": ["The bread is one piece.", "And is called a sub."],
        "judge": [
            {
                "reasoning": "The sub decided it.",
                "winner": "a hot dog is a sandwich",
                "verdict": "It is, as a sub is.",
            }
        ],
    },
    "investment": {
        "Bull": [
            "Revenue tripled in a year, and early investors set the terms.",
            "Then half now, half when they reach $3M of revenue.",
        ],
        "Bear": [
            "They burn $400K a month and have nine months left at this price.",
            "I can live with half, if the second half needs the $3M.",
        ],
        "moderator": [
            {"summary": "Bull sees growth, Bear sees nine months of cash.", "status": "CONTINUE", "decision": None},
            {
                "summary": "Both accept a first half, and the second at $3M of revenue.",
                "status": "SETTLED",
                "decision": "Invest $500K now, $500K at $3M of revenue.",
            },
        ],
    },
    "moral_decisions": {
        "Proponent": [
            ("A machine has no interest of its own in who gets the kidney.", "Opponent"),
            ("Then let it propose, and publish why.", "Neutral"),
        ],
        "Opponent": [
            ("It has those of whoever trained it, and cannot answer for them.", "Neutral"),
            ("A proposal that nobody dares to overrule is a decision.", "Proponent"),
        ],
        "Neutral": [
            ("Who answers today, when a committee is split?", "Proponent"),
            ("So it hangs on whether people still overrule it. Do they?", "Opponent"),
        ],
    },
    "four_vendors": {
        "debater-keeper": ["Who cannot upgrade is who needs the fixes most, and one more row in CI costs minutes."],
        "debater-mover": [
            "Every old Python holds back the code that all others read. Its users can stay on a release of last year."
        ],
        "judge": [
            {
                "reasoning": "The keeper named a cost in minutes, the mover one for every reader, and nobody answered.",
                "winner": "The library should support the two newest Pythons only",
                "verdict": "Drop the oldest, and keep its last release open for fixes.",
            }
        ],
    },
    "escalation": {
        "first": [
            "Yes: the Nile is more than five times as long.",
            "Yes: Mondays are slow, and everybody needs the same day off.",
        ],
        "second": [
            "Yes, the Nile has more than 6,000 km, the Rhine 1,230.",
            "No: its regulars come on their way to work, on Mondays too.",
        ],
        "agreement": [
            {"reasoning": "Both say that the Nile is longer.", "agree": True},
            {"reasoning": "Both say that the Nile is longer.", "agree": True},
            {"reasoning": "One closes on Mondays, the other does not.", "agree": False},
        ],
        "critic": [
            {
                "claims": [
                    {
                        "claim": "The question says that there are three staff, and the answer ignores it.",
                        "kind": "missing",
                        "place": None,
                        "settledBy": "the question",
                    }
                ]
            }
        ],
        "critique-judge": [
            {
                "rulings": [
                    {
                        "claim": "C1",
                        "reason": "The answer says nothing about the staff.",
                        "quotes": ["a cafe with three staff"],
                        "ruling": "holds",
                    }
                ]
            }
        ],
        "debater-ann": ["With three staff, a day on which all are free costs one slow day of sales."],
        "debater-ben": ["Two can run the shop while one is free: a rota costs no customer."],
        "debate-judge": [
            {
                "reasoning": "The rota gives everybody a free day without closing.",
                "scores": {"yes": 30, "no": 70},
                "verdict": "Stay open on Mondays, with a rota.",
            }
        ],
    },
    "council": {
        "member-Ada": ["Rewrite it: the retries we have hide two bugs already."],
        "member-Ben": ["Add retries now, log every one of them, and rewrite what the log shows."],
        "member-Cleo": ["I only need the file by seven. Retries would do."],
        "reviewer-Ada": [RANKED["Ada"]],
        "reviewer-Ben": [RANKED["Ben"]],
        "reviewer-Cleo": [RANKED["Cleo"]],
        "chair": [
            {
                "answer": "Add retries with a log this week; rewrite the step that the log shows to fail most.",
                "dissent": "Whether the two known bugs can wait for the log.",
            }
        ],
    },
    "checked_answer": {
        "critic-Ada": [
            {
                "claims": [
                    {
                        "claim": "The lease gives the landlord 30 days, not 14.",
                        "kind": "false",
                        "place": "within 14 days",
                        "settled_by": "§ 7 of the lease",
                    },
                    {
                        "claim": "The landlord may keep the cost of cleaning.",
                        "kind": "missing",
                        "settled_by": "§ 8 of the lease",
                    },
                ]
            }
        ],
        "judge": [
            {
                "rulings": [
                    {
                        "claim": "C1",
                        "reason": "§ 7 counts 30 days from the handing over of the keys.",
                        "quotes": ["It is paid back within 30 days after the keys were handed over"],
                        "ruling": "holds",
                    },
                    {
                        "claim": "C2",
                        "reason": "§ 8 mentions the cost of cleaning.",
                        "quotes": ["The landlord may keep the cost of cleaning"],
                        "ruling": "holds",
                    },
                ]
            }
        ],
        "author": [
            "The deposit of 1,200 euros is paid back within 30 days. Only unpaid rent may be kept, nothing for wear."
        ],
    },
    "review": {
        "reviewer-Ada": [
            {
                "findings": [
                    {
                        "title": "The old servers are gone before anybody knows",
                        "claim": "Errors show in the first days, and then there is no way back.",
                        "severity": "blocker",
                        "file": "plan.md",
                        "line": 3,
                        "suggestion": "Keep them for a month.",
                    }
                ]
            }
        ],
        "reviewer-Ben": [
            {
                "findings": [
                    {
                        "title": "Nobody has measured a restore",
                        "claim": "If it takes longer than the night, customers wait.",
                        "severity": "blocker",
                        "quote": "we restore the backup of the evening",
                    },
                    {
                        "title": "“One night” is vague",
                        "claim": "It could be any night.",
                        "severity": "nit",
                        "file": "plan.md",
                        "line": 1,
                    },
                ]
            }
        ],
        "reviewer-Cleo": [
            {
                "findings": [
                    {
                        "title": "No way back",
                        "claim": "The next morning is too early to switch anything off.",
                        "severity": "major",
                        "quote": "switched off the next morning",
                    }
                ]
            }
        ],
        "merger": [{"pairs": [{"pair": 1, "same": True}]}],
        "examiner-Ada": [
            {
                "verdicts": [
                    {"finding": "F1", "verdict": "confirm", "reason": "The plan has no number for it."},
                    {"finding": "F3", "verdict": "refute", "reason": "It says one night, which is what matters."},
                ]
            }
        ],
        "examiner-Ben": [
            {"verdicts": [{"finding": "F2", "verdict": "confirm", "reason": "The third line says so."}]},
            {"verdicts": [{"finding": "F2", "verdict": "confirm", "reason": "The third line says so."}]},
            {"answers": [{"finding": "F3", "stands": False, "reason": "It is a matter of taste."}]},
        ],
        "examiner-Cleo": [
            {
                "verdicts": [
                    {"finding": "F1", "verdict": "confirm", "reason": "A restore of this size took us nine hours."},
                    {"finding": "F3", "verdict": "refute", "reason": "Nobody will be in doubt about it."},
                ]
            }
        ],
    },
    "consensus_pipeline": {
        "propose-architect": ["Move country by country, the old provider as a way back."] * 2,
        "propose-accountant": ["Run both for a month and compare every evening."] * 2,
        "propose-lawyer": ["Give notice only when the last country has moved."] * 2,
        "criticize": [
            {"reasoning": "It has no dates.", "issues": ["no dates"], "suggestions": ["name the days"], "severity": 0.6}
        ]
        * 40,
        "revise-architect": [
            {
                "proposal": "Move a country each Tuesday from May on; run both until the books agree for a week.",
                "position": "country by country, with dates",
                "enough": True,
            }
        ]
        * 4,
        "revise-accountant": [
            {
                "proposal": "Run both in May, compare every evening, and switch on 1 June.",
                "position": "both for a month",
                "enough": True,
            }
        ]
        * 4,
        "revise-lawyer": [
            {
                "proposal": "Give notice on 1 July, when the last country has moved.",
                "position": "notice last",
                "enough": True,
            }
        ]
        * 4,
        "vote": [{"reasoning": "It has dates and a way back.", "choice": "architect", "confidence": 0.8}] * 8,
    },
    "round_robin": {
        "Ruth": [
            "Raise the crossing at the school: cars slow down to 25.",
            "Measured at two schools: 31 before, 24 after.",
        ],
        "Omar": ["A raised crossing is 18,000 EUR once; a guard is 14,000 a year.", "So it pays from the second year."],
        "Lena": [
            "The corner frightens them, not the crossing: cars come round it blind.",
            "A mirror there is 300 EUR. Begin with that.",
        ],
        "referee": [
            {
                "assessments": [
                    {"agentName": "Ruth", "issues": ["no measurement"], "score": 60},
                    {"agentName": "Omar", "issues": [], "score": 80},
                    {"agentName": "Lena", "issues": [], "score": 80},
                ],
                "notes": "Ruth should say where that was measured.",
            },
            {
                "assessments": [
                    {"agentName": "Ruth", "issues": [], "score": 85},
                    {"agentName": "Omar", "issues": [], "score": 85},
                    {"agentName": "Lena", "issues": [], "score": 90},
                ],
                "notes": "All three have answered what was asked.",
            },
        ],
        "synthesizer": [
            {
                "reasons": ["cars come round the corner blind", "a raised crossing pays from the second year"],
                "plan": "Put up a mirror at the corner, and raise the crossing in the summer.",
                "first_step": "Order the mirror: 300 EUR.",
                "open_risks": ["the bus needs the corner"],
            }
        ],
    },
    "human_judge": {
        "walker": ["600 people walk over it each day, 90 cars drive."],
        "driver": ["The 90 include the doctor and the ambulance."],
    },
    "many_questions": {
        "Ruth": ["Others have done it, and nobody went back."],
        "Omar": ["It costs more than it brings."],
        "judge": [
            {
                "reasoning": "No figure was named.",
                "winner": "it should be left as it is",
                "verdict": "Ask again with figures.",
            }
        ],
    },
    "your_documents": {
        "member-Ada": ["Yes: “260 would leave the car at home”, and that is two of three."],
        "member-Ben": ["Only with a cap. They “cost 30 million”, and the plan says “at most 40 million in all”."],
        "chair": [
            {
                "answer": "Build it, with a cap on the costs that the plan does not have yet.",
                "dissent": "How high it is.",
            }
        ],
    },
    "verified_quotes": {
        "walker": [
            "The report says “1.5 times as many people walk there”.",
            "It is one year; it says “Deliveries are late” of both.",
        ],
        "driver": [
            "Shops lose: it says “takings fell by 60 per cent”.",
            "They “fell by 6 per cent in the second”, which is the year that counts.",
        ],
        "judge": [
            {
                "reasoning": "One quote is not in the report.",
                "winner": "Mill Street should stay closed to cars",
                "verdict": "Keep it closed, and mend the deliveries.",
            }
        ],
    },
}
