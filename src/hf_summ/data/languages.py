"""Languages: the two-letter ISO 639 code that a longer code, a locale or an English name stands for."""

import re
from collections import Counter
from functools import cache
from itertools import islice
from unicodedata import name as unicode_name

from hf_summ.models.checks import check_text
from hf_summ.models.text_documents import marks

# for each language with a code of two letters: this, its other codes (also earlier ones, and that of the individual
# language which data sets such as FLORES-200 name for it), and its English names
_LANGUAGES = """
    aa aar afar; ab abk abkhazian; ae ave avestan; af afr afrikaans; ak aka akan; am amh amharic; an arg aragonese;
    ar ara arabic arb; as asm assamese; av ava avaric; ay aym aymara ayr; az aze azerbaijani azj; ba bak bashkir; be
    bel belarusian; bg bul bulgarian; bi bis bislama; bm bam bambara; bn ben bengali; bo bod tib tibetan; br bre
    breton; bs bos bosnian; ca cat catalan valencian; ce che chechen; ch cha chamorro; co cos corsican; cr cre cree;
    cs ces cze czech; cu chu church_slavic; cv chv chuvash; cy cym wel welsh; da dan danish; de deu ger german; dv
    div divehi maldivian; dz dzo dzongkha; ee ewe; el ell gre greek; en eng english; eo epo esperanto; es spa
    spanish castilian; et est estonian ekk; eu eus baq basque; fa fas per persian pes prs farsi dari; ff ful fulah;
    fi fin finnish; fj fij fijian; fo fao faroese; fr fra fre french; fy fry frisian; ga gle irish; gd gla
    scottish_gaelic; gl glg galician; gn grn guarani; gu guj gujarati; gv glv manx; ha hau hausa; he heb hebrew iw;
    hi hin hindi; ho hmo hiri_motu; hr hrv croatian; ht hat haitian haitian_creole; hu hun hungarian; hy hye arm
    armenian; hz her herero; ia ina interlingua; id ind indonesian in; ie ile interlingue; ig ibo igbo; ii iii
    sichuan_yi nuosu; ik ipk inupiaq; io ido; is isl ice icelandic; it ita italian; iu iku inuktitut; ja jpn
    japanese; jv jav javanese; ka kat geo georgian; kg kon kongo; ki kik kikuyu; kj kua kuanyama; kk kaz kazakh; kl
    kal kalaallisut; km khm khmer; kn kan kannada; ko kor korean; kr kau kanuri; ks kas kashmiri; ku kur kurdish kmr
    kurmanji; kv kom komi; kw cor cornish; ky kir kirghiz kyrgyz; la lat latin; lb ltz luxembourgish letzeburgesch;
    lg lug ganda; li lim limburgan; ln lin lingala; lo lao; lt lit lithuanian; lu lub luba_katanga; lv lav latvian
    lvs; mg mlg malagasy plt; mh mah marshallese; mi mri mao maori; mk mkd mac macedonian; ml mal malayalam; mn mon
    mongolian khk; mr mar marathi; ms msa may malay zsm; mt mlt maltese; my mya bur burmese myanmar; na nau nauru;
    nb nob bokmal; nd nde north_ndebele; ne nep nepali npi; ng ndo ndonga; nl nld dut dutch flemish; nn nno nynorsk;
    no nor norwegian; nr nbl south_ndebele; nv nav navajo; ny nya chichewa nyanja; oc oci occitan; oj oji ojibwa; om
    orm oromo gaz; or ori oriya ory odia; os oss ossetian; pa pan panjabi punjabi; pi pli pali; pl pol polish; ps
    pus pushto pbt pashto; pt por portuguese; qu que quechua quy; rm roh romansh; rn run rundi kirundi; ro ron rum
    romanian moldavian; ru rus russian; rw kin kinyarwanda; sa san sanskrit; sc srd sardinian; sd snd sindhi; se sme
    northern_sami; sg sag sango; sh hbs serbo_croatian; si sin sinhala sinhalese; sk slk slo slovak; sl slv
    slovenian; sm smo samoan; sn sna shona; so som somali; sq sqi alb albanian als; sr srp serbian; ss ssw swati; st
    sot southern_sotho sesotho; su sun sundanese; sv swe swedish; sw swa swahili swh; ta tam tamil; te tel telugu;
    tg tgk tajik; th tha thai; ti tir tigrinya; tk tuk turkmen; tl tgl tagalog fil filipino; tn tsn tswana; to ton
    tonga; tr tur turkish; ts tso tsonga; tt tat tatar; tw twi; ty tah tahitian; ug uig uighur uyghur; uk ukr
    ukrainian; ur urd urdu; uz uzb uzbek uzn; ve ven venda; vi vie vietnamese; vo vol volapuk; wa wln walloon; wo
    wol wolof; xh xho xhosa; yi yid yiddish ydd; yo yor yoruba; za zha zhuang; zh zho chi chinese cmn mandarin; zu
    zul zulu
"""
# the most frequent words of languages that share a script
_FREQUENT = {
    line.split()[0]: frozenset(line.split()[1:])
    for line in """
af die en van is nie dat vir met wat het sal hy word
ar في من على أن إلى التي هذا الذي لا عن مع
az və bu ilə üçün bir də ki olan edib o da isə
be і ў не на з што гэта як да за па быў
bg и на в да не се за от че със е са
ca els les i per amb és una als ha dels que del va
cs se na že je to jsem jako by od pro který také
cy y yr yn ar mae wedi ei bod ac gan yw ond am
da og at det er på ikke med til af den som jeg
de der die und das ist nicht von mit den ein eine zu
el και το να της ο η του με για την που
en the of and to in is that for with was a
es el los las del que y una por con para se
et ja on ei et see oli ka mis kui ta oma aga
eu eta da ez bat du zen dira ere dute baina hau dela
fa و در به از که این را با است آن برای
fi ja on ei että se oli mutta kun hän ovat myös
fr le la les des et est une que dans pour du
ga an na agus a ar go i le is ní sé bhí
gd an na agus a air gu e tha le bha nach ann
gl o os do da que e en non unha ao co máis foi
ha da a na ta ya ba ne cewa wannan shi suka sun
he של את על לא הוא עם כי גם זה
hi के में है और की का को से ने पर
hr je i u na da se za su od kako bi nije
hu a az és hogy nem egy volt is meg csak
id yang dan di ini untuk dengan itu tidak pada dari adalah karena bahwa
ig na ndị nke ya ka bụ ọ dị ga si iji ahụ
is og að í er á sem ekki til var með um það
it il di che è una per con della non sono gli
kk және бұл мен бір үшін деп да де болды ол бар осы
ky жана бул менен деп үчүн да эле болгон бир ал анын
lt ir į kad iš su yra tai ne buvo apie bet kaip
lv un ir ka par uz ar no tas bija arī kas viņš
mk и на во да се од за со не е што го
mr आहे आणि या ते व होते हे त्या नाही तर होती आहेत केले
ms yang dan di ini untuk dengan itu tidak pada beliau kerana daripada bahawa
ne र छ भने पनि छन् हो यो थियो गरेको भएको लागि गर्ने तथा
nl de het een van en niet dat zijn met voor op
no og det er på ikke med til av som jeg ble å at
om fi kan akka ta irra waan jira isaa keessa yeroo kun hin
pl nie się na jest że do to jak po od oraz
ps د په او چې کې له هم دا یې دی نه ته به دي
pt o os não uma com para que do da em ao
rn mu na ko ku kandi iki uyu muri ariko ivyo bo ari
ro și este nu care din la pe cu pentru sau că să a
ru и в не на что с он как это по из
sk a na sa je v že to aj ako by pre bol
sl je in v na da se za so pri bo ki pa
so oo ay ka ku la ayaa uu in waa si ee iyo
sq të e në dhe për që me nga një është nuk si
sr је и у да на се за су од не који са
sv och att det som på är inte med för den av
sw ya wa na kwa ni katika za la kuwa hiyo cha kama
tl ang ng sa na mga ay at ni para niya ito siya
tr bir ve bu için ile da de çok olarak daha
uk і в не на що з та як це від до
ur کے میں کی اور سے ہے کا کو نے
uz va bu bilan uchun bir deb ham edi ning esa u deya
vi và của là có không được các trong cho một
yo ti ni o si pe awon ati fun naa won sí àwọn
""".strip().splitlines()
}
# the language of a script, as in the names of letters
_SCRIPTS = {
    **{"ARMENIAN": "hy", "BENGALI": "bn", "CJK": "zh", "ETHIOPIC": "am", "GEORGIAN": "ka", "GUJARATI": "gu"},
    **{"GURMUKHI": "pa", "HANGUL": "ko", "HIRAGANA": "ja", "KANNADA": "kn", "KATAKANA": "ja", "KHMER": "km"},
    **{"LAO": "lo", "MALAYALAM": "ml", "MYANMAR": "my", "ORIYA": "or", "SINHALA": "si", "TAMIL": "ta"},
    **{"TELUGU": "te", "THAI": "th", "TIBETAN": "bo"},
}
# letters that determine a script, the share of kana beside Chinese characters, and that of frequent words
_LETTERS, _KANA, _SHARE = 500, 0.2, 0.05
_CODE = re.compile("([a-z]{2,3})([-_].*)?")


def language_code(language: str) -> str:
    """The language of a code or an English name: en for en-GB, en_US.UTF-8, eng, eng_Latn and English.

    It has two letters where ISO 639 has such a code, and otherwise three.
    """
    check_text("language", language)
    names, spelled = _names(), re.sub(r"[\s-]", "_", language.strip().lower())
    first = spelled.partition("_")[0]
    if code := names.get(spelled) or names.get(first):
        return code
    if _CODE.fullmatch(spelled) is None:
        raise ValueError(
            f"`language` is {language!r:.80}, but must be an ISO 639 code of two or three letters, such as en, de or "
            "zh, or a language's English name"
        )
    return first


def probable_language(text: str) -> str | None:
    """The language of a text, by its most frequent words, or by a script that one language has; None if neither.

    This tells apart the languages of `_FREQUENT` and `_SCRIPTS` alone.
    """
    letters = islice(filter(str.isalpha, text), _LETTERS)
    scripts = Counter(unicode_name(letter, "UNKNOWN").split()[0] for letter in letters)
    if scripts["HIRAGANA"] + scripts["KATAKANA"] > _KANA * scripts["CJK"] > 0:
        return "ja"
    words = re.findall(rf"[\w{marks()}]+", text.lower())
    counts = {language: sum(map(own.__contains__, words)) for language, own in _FREQUENT.items()}
    best = max(counts, key=counts.__getitem__)
    if counts[best] > _SHARE * len(words):
        return best
    script, _ = scripts.most_common(1)[0] if scripts else ("", 0)
    return _SCRIPTS.get(script)


@cache
def _names() -> dict[str, str]:
    return {name: names[0] for names in map(str.split, _LANGUAGES.split(";")) for name in names}
