/**
 * A page of plain English from which the models take their letter statistics, so that an untrained model already
 * writes something that looks like words. Each paragraph is one document.
 */

/** @internal */
export const paragraphs: ReadonlyArray<string> = [
  "A small model is a good teacher. It learns in seconds, it forgets nothing you ask it to keep, and when something " +
  "goes wrong there are only a few places to look. You can change one number, run the loop again, and see the curve " +
  "bend before the kettle boils.",
  "The river runs past the old mill and under the stone bridge. In the morning the children walk along the bank to " +
  "school, counting the boats; in the evening they walk home and count them again. The numbers are never the same, " +
  "and they argue about it all the way to the door.",
  "To train is to repeat with care. First the model reads the example and makes a guess. Then the loss says how far " +
  "the guess was from the answer, and the gradient says which way to move. Each step is short. After many short steps " +
  "the model has gone a long way, and the answer that was once a surprise is now what it expects.",
  "Question: what is the name of the town?\nAnswer: the town is called Harrow.\n\nQuestion: how many people live " +
  "there?\nAnswer: about nine thousand people live there, and most of them know each other by sight.\n\nQuestion: is " +
  "it far?\nAnswer: no, it is not far; take the road by the lake and turn left at the second farm.\n",
  "She opened the window and let the cold air in. \"There will be snow before the weekend,\" she said, \"so we should " +
  "bring the wood inside.\" He nodded, put on his coat, and went out to the yard. They worked until it was dark, and " +
  "then they sat by the fire and told stories about the winter when the whole valley was white for a month.",
  "Write the test first, then the code, then read both again. A good name saves a comment; a good comment saves an " +
  "hour. When two things always change together, put them in one place. When one thing changes for two reasons, take " +
  "it apart. Leave the work a little better than you found it.",
  "The market opens at seven. There are apples and pears, bread and cheese, fish from the coast and honey from the " +
  "hills. Prices are written in chalk:\n- apples: 3 for one, 5 for two\n- pears: 4 for one, 10 for three\n- " +
  "honey: 12 a jar, 60 for half a dozen\nBy noon the best of it is gone, and by two o'clock the square is empty " +
  "except for the pigeons and a man with a broom.\n",
  "Reward is a simple word for a hard idea. We cannot show the model the right answer, but we can tell it when an " +
  "answer was better than the others. So it tries, and we score, and it tries again. What worked becomes more likely; " +
  "what failed becomes rare. The skill lies in choosing what to praise.",
  "Light takes eight minutes to reach us from the sun, and four years from the nearest star. When you look up at night " +
  "you see many different pasts at once. Some of those stars may be gone. Others have planets, and on one of them, " +
  "perhaps, someone is looking back and asking the same quiet questions.",
  "Keep the list short. Do the first thing, cross it out, and do the next. If the list grows faster than you can work, " +
  "the trouble is with the list and not with you. Stop, make some tea, and ask which of these things would matter in a " +
  "year. Then begin again with that one."
]
