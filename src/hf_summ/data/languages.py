"""Languages: the two-letter ISO 639 code that a longer code, a locale or an English name stands for."""

import re
from functools import cache

from hf_summ.models.checks import check_text

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


@cache
def _names() -> dict[str, str]:
    return {name: names[0] for names in map(str.split, _LANGUAGES.split(";")) for name in names}
