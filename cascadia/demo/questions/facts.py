"""Listed facts: what a question names, and the answers that are right."""

Facts = dict[str, tuple[str, ...]]


def _pairs(text: str) -> Facts:
    """`a: b | c; ...`: of a, both b and c are right."""
    entries = (entry.split(":") for entry in text.replace("\n", " ").split(";") if entry.strip())
    return {a.strip(): tuple(part.strip() for part in b.split("|")) for a, b in entries}


CAPITALS = _pairs("""
    France: Paris; Japan: Tokyo; Italy: Rome; Spain: Madrid; Germany: Berlin; Portugal: Lisbon; Greece:
    Athens; Austria: Vienna; Belgium: Brussels; Denmark: Copenhagen; Sweden: Stockholm; Norway: Oslo;
    Finland: Helsinki; Iceland: Reykjavik | Reykjavík; Ireland: Dublin; Poland: Warsaw; Hungary: Budapest;
    Romania: Bucharest; Bulgaria: Sofia; Croatia: Zagreb; Serbia: Belgrade; Slovenia: Ljubljana; Slovakia:
    Bratislava; Ukraine: Kyiv | Kiev; Russia: Moscow; Estonia: Tallinn; Latvia: Riga; Lithuania: Vilnius;
    Turkey: Ankara; Egypt: Cairo; Morocco: Rabat; Tunisia: Tunis; Algeria: Algiers; Libya: Tripoli; Kenya:
    Nairobi; Ethiopia: Addis Ababa; Ghana: Accra; Senegal: Dakar; Nigeria: Abuja; Uganda: Kampala; Zambia:
    Lusaka; Zimbabwe: Harare; Angola: Luanda; Namibia: Windhoek; Iran: Tehran; Iraq: Baghdad; Syria:
    Damascus; Jordan: Amman; Lebanon: Beirut; Saudi Arabia: Riyadh; Qatar: Doha; Afghanistan: Kabul;
    Pakistan: Islamabad; India: New Delhi | Delhi; Nepal: Kathmandu; Bangladesh: Dhaka; Thailand: Bangkok;
    Vietnam: Hanoi; Cambodia: Phnom Penh; Malaysia: Kuala Lumpur; Indonesia: Jakarta; Philippines: Manila;
    China: Beijing; South Korea: Seoul; North Korea: Pyongyang; Mongolia: Ulaanbaatar | Ulan Bator;
    Australia: Canberra; New Zealand: Wellington; Canada: Ottawa; Mexico: Mexico City; Cuba: Havana;
    Jamaica: Kingston; Panama: Panama City; Colombia: Bogotá | Bogota; Venezuela: Caracas; Peru: Lima;
    Chile: Santiago; Argentina: Buenos Aires; Uruguay: Montevideo; Paraguay: Asunción | Asuncion; Ecuador:
    Quito; Brazil: Brasília | Brasilia
""")

CONTINENTS = _pairs("""
    France: Europe; Italy: Europe; Germany: Europe; Poland: Europe; Sweden: Europe; Greece: Europe;
    Portugal: Europe; Norway: Europe; Belgium: Europe; Hungary: Europe; Ireland: Europe; Japan: Asia; China:
    Asia; India: Asia; Vietnam: Asia; Nepal: Asia; Mongolia: Asia; Iraq: Asia; Iran: Asia; Thailand: Asia;
    Malaysia: Asia; Pakistan: Asia; Kenya: Africa; Nigeria: Africa; Ghana: Africa; Morocco: Africa;
    Ethiopia: Africa; Angola: Africa; Senegal: Africa; Zambia: Africa; Uganda: Africa; Namibia: Africa;
    Brazil: South America; Peru: South America; Chile: South America; Argentina: South America; Colombia:
    South America; Bolivia: South America; Uruguay: South America; Ecuador: South America; Canada: North
    America; Mexico: North America; Spain: Europe; Austria: Europe; Denmark: Europe; Finland: Europe;
    Iceland: Europe; Romania: Europe; Bulgaria: Europe; Croatia: Europe; Serbia: Europe; Slovenia: Europe;
    Slovakia: Europe; Ukraine: Europe; Estonia: Europe; Latvia: Europe; Lithuania: Europe; Switzerland:
    Europe; Albania: Europe; Bangladesh: Asia; Cambodia: Asia; South Korea: Asia; North Korea: Asia; Laos:
    Asia; Myanmar: Asia; Sri Lanka: Asia; Afghanistan: Asia; Uzbekistan: Asia; Syria: Asia; Jordan: Asia;
    Lebanon: Asia; Yemen: Asia; Oman: Asia; Kuwait: Asia; Algeria: Africa; Tunisia: Africa; Libya: Africa;
    Sudan: Africa; Mali: Africa; Niger: Africa; Chad: Africa; Cameroon: Africa; Gabon: Africa; Rwanda:
    Africa; Tanzania: Africa; Mozambique: Africa; Zimbabwe: Africa; Botswana: Africa; South Africa: Africa;
    Ivory Coast: Africa; Liberia: Africa; Somalia: Africa; Madagascar: Africa; Venezuela: South America;
    Paraguay: South America; Guyana: South America; Suriname: South America; Cuba: North America; Jamaica:
    North America; Haiti: North America
""")

SYMBOLS = _pairs("""
    gold: Au; silver: Ag; iron: Fe; copper: Cu; tin: Sn; lead: Pb; mercury: Hg; sodium: Na; potassium: K;
    hydrogen: H; helium: He; lithium: Li; carbon: C; nitrogen: N; oxygen: O; fluorine: F; neon: Ne;
    magnesium: Mg; aluminium: Al; silicon: Si; phosphorus: P; sulfur: S; chlorine: Cl; argon: Ar; calcium:
    Ca; titanium: Ti; chromium: Cr; manganese: Mn; cobalt: Co; nickel: Ni; zinc: Zn; bromine: Br; krypton:
    Kr; barium: Ba; tungsten: W; platinum: Pt; uranium: U; radium: Ra; xenon: Xe
""")

OPPOSITES = _pairs("""
    hot: cold; tall: short; fast: slow; old: young | new; happy: sad | unhappy; light: dark | heavy; up:
    down; left: right; open: closed | close | shut; early: late; full: empty; hard: soft | easy; rich: poor;
    strong: weak; wet: dry; day: night; good: bad | evil; clean: dirty; loud: quiet | silent | soft; near:
    far; above: below; inside: outside; first: last; true: false; win: lose; buy: sell; love: hate; begin:
    end | finish; push: pull; rise: fall | set; deep: shallow; wide: narrow; thick: thin; sharp: dull |
    blunt; smooth: rough; cheap: expensive; safe: dangerous | unsafe; easy: hard | difficult; male: female;
    summer: winter; north: south; east: west; ancient: modern; victory: defeat | loss; guilty: innocent;
    include: exclude; increase: decrease; arrive: depart | leave; remember: forget; success: failure;
    friend: enemy | foe; alive: dead; asleep: awake; brave: cowardly | fearful | timid; cruel: kind; polite:
    rude | impolite; maximum: minimum; black: white; big: small | little; long: short; high: low; thin:
    thick | fat; heavy: light; hungry: full | satisfied; sweet: sour | bitter; simple: complex |
    complicated; noisy: quiet | silent; lazy: hardworking | active | diligent | energetic | industrious;
    lucky: unlucky; possible: impossible; legal: illegal; visible: invisible; honest: dishonest; regular:
    irregular; patient: impatient; complete: incomplete; correct: incorrect | wrong; fair: unfair; healthy:
    unhealthy | sick; important: unimportant; usual: unusual; certain: uncertain; equal: unequal; known:
    unknown; necessary: unnecessary; pleasant: unpleasant; public: private; forward: backward | backwards;
    before: after; over: under; more: less | fewer; many: few; always: never; everything: nothing; answer:
    question; borrow: lend; build: destroy | demolish; accept: reject | refuse; attack: defend; create:
    destroy; float: sink; laugh: cry; teach: learn; give: take | receive; come: go; stand: sit; start: stop
    | end | finish; enter: exit | leave; front: back; top: bottom; entrance: exit; heaven: hell; king: queen;
    brother: sister; mother: father; son: daughter; husband: wife; boy: girl; profit: loss; peace: war;
    truth: lie | falsehood; birth: death; beginning: end | ending; positive: negative; active: passive |
    inactive; major: minor; interior: exterior; vertical: horizontal; sunrise: sunset; import: export;
    expand: contract | shrink; optimist: pessimist
""")

PLURALS = _pairs("""
    mouse: mice; child: children; foot: feet; tooth: teeth; goose: geese; man: men; woman: women; ox: oxen;
    knife: knives; wolf: wolves; leaf: leaves; wife: wives; life: lives; shelf: shelves; half: halves;
    thief: thieves; loaf: loaves; city: cities; baby: babies; story: stories; party: parties; lady: ladies;
    box: boxes; bus: buses; church: churches; dish: dishes; glass: glasses; watch: watches; potato:
    potatoes; tomato: tomatoes; hero: heroes; cat: cats; dog: dogs; house: houses; book: books; day: days;
    key: keys; toy: toys; cactus: cacti | cactuses; crisis: crises; analysis: analyses; brush: brushes; fox:
    foxes; bench: benches; country: countries; berry: berries
""")

COLOURS = _pairs("""
    a banana: yellow; a ripe tomato: red; grass: green; snow: white; coal: black; blood: red; the clear sky:
    blue; a lemon: yellow; a carrot: orange; milk: white; a ripe strawberry: red; spinach: green; an
    emerald: green; a ruby: red; a sapphire: blue; a polar bear: white; a flamingo: pink; a pumpkin: orange;
    a cucumber: green; chocolate: brown; a raven: black; a sunflower: yellow; broccoli: green; an elephant:
    grey | gray; a canary: yellow; a fire engine: red; a frog: green; the sun: yellow | white; cotton:
    white; an orange: orange
""")

CITIES = _pairs("""
    Barcelona: Spain; Munich: Germany; Toronto: Canada; Osaka: Japan; Milan: Italy; Sydney: Australia;
    Shanghai: China; Mumbai: India; Lyon: France; Krakow: Poland; Hamburg: Germany; Seville: Spain; Naples:
    Italy; Venice: Italy; Vancouver: Canada; Montreal: Canada; Kyoto: Japan; Melbourne: Australia;
    Marseille: France; Nice: France; Porto: Portugal; Geneva: Switzerland; Zurich: Switzerland; Salzburg:
    Austria; Rotterdam: Netherlands; Antwerp: Belgium; Gothenburg: Sweden; Bergen: Norway; Istanbul: Turkey;
    Alexandria: Egypt; Casablanca: Morocco; Lagos: Nigeria; Cape Town: South Africa; Kolkata: India;
    Karachi: Pakistan; Auckland: New Zealand; São Paulo: Brazil; Rio de Janeiro: Brazil; Cancún: Mexico;
    Cusco: Peru; Manchester: England | United Kingdom | UK; Liverpool: England | United Kingdom | UK;
    Glasgow: Scotland | United Kingdom | UK; Chicago: United States | USA | US | America; Boston: United
    States | USA | US | America; Busan: South Korea | Korea; Saint Petersburg: Russia; Odessa: Ukraine;
    Florence: Italy; Frankfurt: Germany; Paris: France; London: England | United Kingdom | UK; Berlin:
    Germany; Rome: Italy; Madrid: Spain; Vienna: Austria; Athens: Greece; Lisbon: Portugal; Dublin: Ireland;
    Warsaw: Poland; Budapest: Hungary; Prague: Czech | Czechia; Moscow: Russia; Tokyo: Japan; Beijing: China;
    Delhi: India; Bangkok: Thailand; Hanoi: Vietnam; Seoul: South Korea | Korea; Jakarta: Indonesia; Manila:
    Philippines; Cairo: Egypt; Nairobi: Kenya; Buenos Aires: Argentina; Lima: Peru; Bogotá: Colombia;
    Santiago: Chile; Havana: Cuba; Los Angeles: United States | USA | US | America; San Francisco: United
    States | USA | US | America; Seattle: United States | USA | US | America; Houston: United States | USA |
    US | America; Miami: United States | USA | US | America; Ottawa: Canada; Calgary: Canada; Brisbane:
    Australia; Perth: Australia; Wellington: New Zealand; Johannesburg: South Africa; Durban: South Africa;
    Valencia: Spain; Bilbao: Spain; Málaga: Spain; Turin: Italy; Bologna: Italy; Palermo: Italy; Cologne:
    Germany; Stuttgart: Germany; Dresden: Germany; Bordeaux: France; Toulouse: France; Strasbourg: France;
    Birmingham: England | United Kingdom | UK; Edinburgh: Scotland | United Kingdom | UK; Amsterdam:
    Netherlands; Brussels: Belgium; Stockholm: Sweden; Oslo: Norway; Copenhagen: Denmark; Helsinki: Finland;
    Nagoya: Japan; Hiroshima: Japan; Chennai: India; Bangalore: India; Guangzhou: China; Shenzhen: China;
    Lahore: Pakistan; Guadalajara: Mexico; Monterrey: Mexico; Ankara: Turkey
""")

CURRENCIES = _pairs("""
    Japan: yen; the United Kingdom: pound | pounds | sterling; India: rupee | rupees; Russia: ruble | rouble
    | rubles; China: yuan | renminbi; the United States: dollar | dollars; Germany: euro | euros; France:
    euro | euros; Italy: euro | euros; Spain: euro | euros; Mexico: peso | pesos; Sweden: krona | kronor;
    Norway: krone | kroner; Denmark: krone | kroner; Switzerland: franc | francs; Poland: zloty | złoty;
    Turkey: lira; South Korea: won; Brazil: real | reais; Canada: dollar | dollars; Australia: dollar |
    dollars; Thailand: baht; Israel: shekel | shekels; South Africa: rand; Argentina: peso | pesos; Chile:
    peso | pesos; Pakistan: rupee | rupees; Ireland: euro | euros; Greece: euro | euros; New Zealand: dollar
    | dollars
""")

LANGUAGES = _pairs("""
    Brazil: Portuguese; Austria: German; Mexico: Spanish; Egypt: Arabic; France: French; Japan: Japanese;
    Italy: Italian; Argentina: Spanish; Chile: Spanish; Peru: Spanish; Colombia: Spanish; Cuba: Spanish;
    Spain: Spanish; Germany: German; Russia: Russian; China: Chinese | Mandarin; Portugal: Portuguese;
    Sweden: Swedish; Norway: Norwegian; Denmark: Danish; Poland: Polish; Hungary: Hungarian; Greece: Greek;
    Turkey: Turkish; Iran: Persian | Farsi; Iraq: Arabic; Saudi Arabia: Arabic; Morocco: Arabic; Thailand:
    Thai; Vietnam: Vietnamese; South Korea: Korean; Australia: English; England: English; Angola:
    Portuguese; Finland: Finnish; Bulgaria: Bulgarian; Romania: Romanian; Croatia: Croatian; Serbia:
    Serbian; Slovenia: Slovene | Slovenian; Slovakia: Slovak; Ukraine: Ukrainian; Estonia: Estonian; Latvia:
    Latvian; Lithuania: Lithuanian; Iceland: Icelandic; Albania: Albanian; Ecuador: Spanish; Uruguay:
    Spanish; Venezuela: Spanish; Guatemala: Spanish; Honduras: Spanish; Nicaragua: Spanish; Costa Rica:
    Spanish; Panama: Spanish; the United States: English; New Zealand: English; Jamaica: English; Syria:
    Arabic; Jordan: Arabic; Yemen: Arabic; Libya: Arabic; Tunisia: Arabic; Algeria: Arabic; Kuwait: Arabic;
    Mongolia: Mongolian; Cambodia: Khmer; Laos: Lao; Nepal: Nepali; Bangladesh: Bengali | Bangla; Indonesia:
    Indonesian; Mozambique: Portuguese
""")

GENERAL = _pairs("""
    Who wrote Romeo and Juliet?: Shakespeare; Who painted the Mona Lisa?: Leonardo | da Vinci; Which planet
    is known as the Red Planet?: Mars; What is the largest planet in the solar system?: Jupiter; Which
    planet is closest to the Sun?: Mercury; Which planet is famous for its rings?: Saturn; What is the
    largest ocean?: Pacific; What is the tallest mountain in the world?: Everest; Who wrote Hamlet?:
    Shakespeare; Who wrote Don Quixote?: Cervantes; Who wrote Oliver Twist?: Dickens; Who wrote Pride and
    Prejudice?: Austen; Who wrote War and Peace?: Tolstoy; Who wrote The Odyssey?: Homer; Who developed the
    theory of general relativity?: Einstein; Who was the first president of the United States?: Washington;
    Who was the first person to walk on the Moon?: Armstrong; Who discovered penicillin?: Fleming; Which gas
    do plants absorb for photosynthesis?: carbon dioxide | CO2; Which gas do humans need to breathe?:
    oxygen; What is the largest mammal?: blue whale | whale; What is the fastest land animal?: cheetah; What
    is the tallest animal?: giraffe; What is the largest bird?: ostrich; Which animal is known as the king
    of the jungle?: lion; What color do you get by mixing blue and yellow?: green; What color do you get by
    mixing red and white?: pink; What color do you get by mixing red and yellow?: orange; What color do you
    get by mixing red and blue?: purple | violet; What is the frozen form of water called?: ice; What is the
    hardest natural substance?: diamond; Which organ pumps blood through the body?: heart; Which star is
    closest to the Earth?: Sun; What do bees make?: honey; Which metal is liquid at room temperature?:
    mercury; In which city is the Eiffel Tower?: Paris; In which city is the Colosseum?: Rome; In which city
    is Big Ben?: London; In which country are the pyramids of Giza?: Egypt; In which country is the Taj
    Mahal?: India; What is the chemical formula of water?: H2O | H₂O; What force pulls objects toward the
    Earth?: gravity | gravitational; What is the study of living things called?: biology; What is the study
    of stars and planets called?: astronomy; What is the largest desert in Africa?: Sahara; What is the
    longest river in Africa?: Nile; What is the largest country in the world by area?: Russia; What is the
    smallest country in the world?: Vatican; Who painted The Starry Night?: van Gogh | Gogh; Who composed
    the Ninth Symphony, with the Ode to Joy?: Beethoven; Who invented the telephone?: Bell; Which instrument
    has 88 keys?: piano
""")
