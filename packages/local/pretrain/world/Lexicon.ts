/**
 * The open classes of the world: whatever stands in these lists, a tenth of it is held out.
 */

const words = (text: string): ReadonlyArray<string> => text.trim().split(/\s+/)

export const names = words(`
  Ada Alan Alba Alice Amir Amy Ana Anders Anna Aria Arne Asha Astrid Ben Bella Bianca Bo Boris Bruno Carla Carlos Cem
  Chen Clara Dana Daniel Dara David Dina Diego Dora Edgar Elena Eli Elsa Emil Emma Enzo Erik Esme Eva Farid Fatima Felix
  Finn Fiona Frida Gina Greta Gus Hana Hans Hugo Ida Igor Ines Ingrid Ivan Iris Jack Jana Jasper Jin Joan Jonas Jorge
  Julia Kai Kara Karl Kenji Kira Lars Laura Lea Leo Lena Lily Lina Louis Luca Lucy Luis Maja Mara Marco Maria Mark Marta
  Max Maya Mei Mia Mila Milo Mina Mira Mona Nadia Nils Nina Noah Nora Olga Oscar Otto Paul Pavel Petra Pia Priya Raj Rosa
  Ruth Sam Sana Sara Sasha Simon Sofia Stella Sven Tara Theo Tim Tina Tom Uma Vera Victor Viola Wanda Will Yara Yuki Zara
  Zoe`)

export const cities = words(`
  Oslo Paris London Berlin Madrid Rome Lisbon Vienna Prague Dublin Athens Cairo Tokyo Delhi Lima Quito Bogota Havana
  Boston Chicago Denver Dallas Austin Seattle Toronto Montreal Sydney Perth Seoul Osaka Kyoto Hanoi Manila Jakarta Nairobi
  Lagos Accra Tunis Rabat Dakar Riga Tallinn Vilnius Warsaw Krakow Budapest Zagreb Sofia Zurich Geneva Milan Turin Naples
  Porto Seville Bergen Malmo Aarhus Helsinki Turku Bremen Hamburg Munich Cologne Lyon Nice Ghent Utrecht`)

export const foods = words(`
  apples bread cheese rice soup pasta pizza beans plums grapes figs honey olives cake cookies pears lemons mangos salad
  carrots potatoes tomatoes onions nuts dates melons berries peaches cherries tofu noodles pancakes waffles yogurt corn
  mushrooms spinach pumpkin chocolate tea coffee milk juice`)

/** Foods one can have a number of. */
export const countable = foods.filter((food) => food.endsWith("s"))

export const animals = words(`
  cat dog horse rabbit parrot turtle hamster goat sheep cow pig duck goose hen frog lizard snake fish pony mouse donkey
  fox owl crow swan lamb llama camel beaver otter ferret gecko canary pigeon spider`)

export const colors = words(`
  red blue green yellow black white brown orange purple pink gray silver gold violet teal cyan beige crimson ivory navy
  olive maroon turquoise scarlet`)

export const jobs = words(`
  baker doctor teacher pilot farmer singer painter driver nurse lawyer cook writer actor dancer sailor tailor plumber
  dentist builder gardener judge clerk waiter barber butcher miner hunter guard coach chemist printer weaver potter`)

export const things = words(`
  cup box book lamp chair table door car bike boat bag hat coat shoe ball kite drum bell clock phone key ring pen brush
  plate bowl spoon fork knife bottle basket blanket pillow mirror ladder rope tent hammer saw bucket candle camera radio
  guitar violin piano shirt scarf glove sofa desk shelf vase`)

export const rooms = words(`
  kitchen garden garage attic cellar bedroom hall office library bathroom shed barn tower balcony pantry closet studio
  lobby basement porch`)

export const hobbies = words(`
  chess tennis soccer hockey golf rugby cricket poker bingo darts judo karate squash polo volleyball basketball baseball
  football badminton checkers`)

/** What a made-up word may start with, contain and end with. */
export const onsets = words("b c d f g h j k l m n p r s t v w z br cr dr fl gr kl pr sk sl st tr th")
export const vowels = words("a e i o u a e i o u ai ea oo")
export const codas = words("b d f g k l m n p r s t x z rk ld nd st")

/** Words of the world's own sentences that could also be made up, and would then not be unseen. */
export const familiar: ReadonlySet<string> = new Set(words("boolean come find fine label repeat total"))
