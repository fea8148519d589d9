"""Abbreviations that the sentence splitter's library does not have, and words that it takes for abbreviations."""

# before a name, a number or a capital, in lower case; those of several letters have all but the last stop
ABBREVIATIONS = {
    "af": "bv mnr mev",
    "bg": "ул гр бул проф стр бр т.е т.нар",
    "bn": "ড ডা ডঃ মো প্রফ",
    "ca": "sr sra dr dra prof st av núm pàg hble ma cf",
    "cs": "dr ing mgr bc mudr judr phdr rndr prof doc p č sv tzv např str plk mjr kpt npor čl odst roč okr příl nar "
    "mj vč popř příp zejm srov",
    "da": "dr hr fr prof nr kap kl mio mrd bl.a fx ift d.d resp",
    "de": "dr prof hr fr frl nr abb bd kap abs art st str ing dipl mag bzw ca vgl sog geb evtl ggf inkl fa evang "
    "kath hl abg bgm dres kfm ü ziff aufl ausg gegr gest hrsg jhdt rdnr zzgl exkl insg mind bspw bes jew bgbl postf "
    "jährl ungef beschl insb durchschn",
    "el": "κ δρ καθ σελ αρ κος εικ βλ δηλ αγ πρβλ",
    "en": "cf atty natl intl civ proc nat acad appl assn wm chas thos geo jos robt profs incl excl ft aka fka amb "
    "mmes assoc dir eds treas pty supp suppl",
    "es": "sr sra srta sres dr dra d dña ud uds lic ing prof profa gral cnel sto sta av avda núm pág págs cap art "
    "excmo excma hble aprox const univ dpto cía col arq ss pdte tte sgto mons cf ene",
    "et": "nt nn pr",
    "fi": "tri prof dr esim ks ns nro synt puh krs vrt ts",
    "fr": "mm mme mmes mlle mlles dr drs pr prof me mgr st ste cf av apr env éd chap art bd boul cie cdt col gén lt "
    "sgt ing incl resp c.-à-d",
    "gu": "ડૉ ડો શ્રી",
    "hi": "डॉ डा श्री प्रो पं मो कु रु श्रीमती",
    "hr": "dr prof br str ul npr tj tzv uklj sv gosp gđa",
    "hu": "dr prof id ifj özv kb ld vö szül ún",
    "id": "dr prof ir drs jl h hj kh tn ny hlm no pt cv ud rp dra bpk sdr mis yth",
    "is": "m.a t.d",
    "it": "sig sigg dott prof avv ing on sen gen col mons dr arch geom pag pagg art cap cfr egr gent incl",
    "kn": "ಡಾ ಶ್ರೀ",
    "lt": "pvz vad plg",
    "lv": "piem",
    "ml": "ഡോ ശ്രീ",
    "mr": "डॉ श्री प्रा",
    "ne": "डा डॉ श्री प्रा",
    "nl": "dhr mevr mw prof dr drs ir mr ing st bijv nr blz burg dir gem fam lt sgt kol geb overl o.a d.w.z incl "
    "excl c.q afb resp",
    "no": "dr hr fr prof nr kap kl mill mrd f.eks dvs pga mht inkl ekskl jf vedr ifm resp bl.a",
    "pl": "ur zm tj godz ok dr prof inż mgr hab ks gen płk św ul al pl nr tzw np os min por zob bp abp red dyr prez "
    "mjr ppłk kpt m.in ww jw śp ew wg pt bł dn ryc",
    "pt": "sr sra srta dr dra prof profa eng exmo exma av pág págs pag núm art cap sto sta aprox apto cia arq dep "
    "gov séc cel ten pe pres incl cf",
    "ro": "dl dna dr prof sf str nr cca bl ap sec lg ex d-na d-l",
    "ru": "г ул д гл им проф акад ст стр рис т тов напр см табл св инж доц е т.е ср пл бул кн ген полк",
    "sk": "dr ing mgr bc mudr judr phdr prof doc p č čl ods sv tzv napr str nar t.j j vrát porov",
    "sl": "npr tj sv oz",
    "sr": "др проф г бр стр ул dr prof br str ul npr tj tzv",
    "sv": "dr prof hr fr s:t nr kap kl frk t.ex dvs resp inkl exkl ang enl jfr ev milj mdr",
    "sw": "dk bw",
    "ta": "திரு டாக்டர் திருமதி",
    "te": "డా డాక్టర్ శ్రీ",
    "tr": "dr prof doç yrd av sn alb gen öğr gör arş uzm müh cad sok mah örn bkz hz şek",
    "uk": "м вул ім проф акад ст стр рис напр див ів арт мал бул просп",
    "vi": "tp ts gs pgs ths bs ls đh q p nsnd nsưt",
}
# in texts of other languages, too
ENGLISH_ABBREVIATIONS = frozenset("Mr Mrs Dr Prof St vs".split())
ABBREVIATIONS = {code: frozenset(titles.split()) for code, titles in ABBREVIATIONS.items()}
ABBREVIATIONS |= {"nb": ABBREVIATIONS["no"], "nn": ABBREVIATIONS["no"]}
# words that the splitter's library takes for abbreviations
NO_ABBREVIATIONS = {
    "af": "kan op al",
    "ca": "no No com cap sobre entre dir contra vol nos mar rep fil post",
    "cs": "tu no nám pod slov",
    "da": "med var da to din del ned par tv vær sort nat form nord sø",
    "de": "mich ok",
    "en": "me no may miss ill fed",
    "es": "no No bien nos entre contra ante tras mar con un da super extra anti post",
    "hr": "ga pa me no",
    "hu": "nem",
    "id": "ia kan yuk",
    "is": "minn",
    "it": "di la in le si con ma al ha se mi lo ci su ne fa me mai no No te vi via li va so ore sa re tv TV post sai "
    "fin file top bar fi coi sia ad ed ai gia Usa USA UE EU ONU NATO Nato PD",
    "lv": "no pa",
    "nl": "dat al me pas best hand vol top ver app tom",
    "no": "det med kan ut del ord jul eg",
    "pt": "vi",
    "ro": "la va ia alta loc ore sens gen",
    "ru": "муж",
    "sk": "tu no pod nám",
    "sl": "pa med ga del res me no",
    "sv": "det med kan ut hon sen del ord ont maj jul fy",
    "tr": "sen kan ver",
}
# before a number
NUMBERED = frozenset(
    "p pp pág págs pag pagg pàg s S str стр nr Nr no No núm n art Art fig Fig Figs FIGS Eq Eqs eq Sec Sect sec "
    "Ref Refs ref refs cap kap Kap vol Vol vols Bd kl d Def Thm Lem Prop Cor Alg Tab App Ch ch Chap chap Ex Ans "
    "Apt Rm Rte Supp lbs approx max ca cca aprox apto rozdz rys ust poz min al tab fl pkt lit Arts arts Secs secs "
    "jan janv ver Vols Ste ed Ed eds Eds est avg std iss par Par Tue Tues Wed Thu Thurs Fri Soc Phys Lett Chem "
    "Math Biol abr ago dic zem tel Tel Tél tél Tlf tlf Puh Тел тел ext Ext feb febr févr mrt mar apr avr jun jul juil "
    "aug sep sept okt oct nov dec dez déc".split()
)
# words at the end of a list, which may end a sentence before a capital
AND_SO_ON = (
    *"etc. ecc. usw. enz. itd. itp. atd. osv. jne. stb. κ.λπ. κλπ. т.д. т.п. др. пр. ін.".split(),
    *("т. д.", "т. п.", "km/h.", "m/s."),
)
