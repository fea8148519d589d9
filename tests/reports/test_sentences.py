"""Sentences of texts as people have them, in each language that the splitter names."""

import pytest

from hf_summ.data import split_sentences
from hf_summ.data.sentences.twins import twin_and_starts

WRAPPED = """Automatic summarizers read a long text and write a shorter
one that keeps what matters most. Because there are more
texts than anyone can read, many people study how programs
could do this. Programs that write good summaries consider
length, style and syntax. A search engine is one example
of such programs. Another one shortens news."""


# languages, and texts with `|` between their sentences
CASES_OF_SENTENCES = [
    ("en", "Dr. Smith met Mr. Jones in the U.S. on Monday.|They spoke."),
    ("en", "He works at Acme Inc. and lives in St. Louis.|She left."),
    ("en", "See Fig. 3 and Eq. 4 for details (e.g. p. 5).|It works."),
    ("en", "J. R. R. Tolkien wrote it.|C. S. Lewis read it."),
    ("en", "It cost $3.50 vs. $4.20.|He paid."),
    ("en", 'He said "I left. She stayed."|Then he went.'),
    ("en", "It works (he said. Really).|It does."),
    ("fr", "Le président M. Macron a parlé.|Mme Le Pen a répondu."),
    ("fr", "Le discours de E. Philippe plaît.|Il part."),
    ("fr", "Le Dr. House est venu.|Il est né en 50 av. J.-C. selon eux."),
    ("de", "Am 3. Oktober kam Dr. Müller.|Er blieb."),
    ("de", "Der 2. Teil kommt bald.|Er ist lang."),
    ("de", "Das ist z.B. gut, d.h. sehr gut.|Es bleibt."),
    ("de", "Er sagte: „Ich gehe.“|Dann ging er."),
    ("de", "Er war 12.|Sie war 13."),
    ("es", "Bien.|¡Hola!|¿Qué tal?|Muy bien."),
    ("es", "El Sr. García y la Sra. López llegaron.|Se fueron."),
    ("es", "Véase la pág. 5 del libro.|Es bueno."),
    ("pt", "Ver pág. 5 do livro.|Fica na Av. Paulista.|Bom."),
    ("pt", "O Sr. Silva e a Dra. Costa vieram.|Saíram."),
    ("it", "Il no. 5 vince.|Bene."),
    ("it", "Il Sig. Rossi e il Dott. Bianchi parlano.|Poi vanno via."),
    ("it", "Ha detto no.|Poi è uscito."),
    ("nl", "Mevr. de Vries kwam.|Dat is o.a. goed."),
    ("nl", "Dhr. Jansen woont in St. Anna.|Hij werkt."),
    ("pl", "To było w 2010 r. w Polsce.|Koniec."),
    ("pl", "Przyszedł dr Nowak i prof. Kowalski.|Wyszli."),
    ("ru", "Это было в 2010 г. в Москве.|Конец."),
    ("ru", "Его зовут А. С. Пушкин.|Он поэт."),
    ("uk", "Це було на вул. Шевченка.|Кінець."),
    ("cs", "Ing. Novák přišel s prof. Dvořákem.|Odešli."),
    ("sk", "Ing. Novák prišiel.|Odišiel."),
    ("sv", "Dr. Svensson kom kl. 5 i går.|Han gick."),
    ("da", "Hr. Jensen kom d. 3. maj.|Han gik."),
    ("nb", "Hr. Hansen kom 3. mai.|Han gikk."),
    ("fi", "Tri. Virtanen tuli 3. toukokuuta.|Hän lähti."),
    ("el", "Ο κ. Παπαδόπουλος ήρθε.|Έφυγε;|Ναι."),
    ("tr", "Dr. Yılmaz geldi.|Prof. Kaya gitti."),
    ("ro", "Dl. Popescu a venit.|Dna. Ionescu a plecat."),
    ("hu", "Dr. Nagy jött.|Elment."),
    ("ca", "El Sr. Puig va arribar.|Va marxar."),
    ("bg", "Дойде д-р Иванов.|Той замина."),
    ("ar", "د. أحمد جاء.|ثم ذهب."),
    ("ar", "هل جاء؟|نعم."),
    ("fa", "دکتر آمد.|او رفت."),
    ("ur", "وہ آیا۔|وہ گیا۔"),
    ("hi", "डॉ. शर्मा आए।|वे गए।"),
    ("bn", "ড. রহমান এলেন।|তিনি গেলেন।"),
    ("mr", "डॉ. पाटील आले.|ते गेले."),
    ("gu", "ડૉ. શાહ આવ્યા.|તે ગયા."),
    ("pa", "ਡਾ. ਸਿੰਘ ਆਏ।|ਉਹ ਗਏ।"),
    ("ta", "திரு. குமார் வந்தார்.|அவர் போனார்."),
    ("te", "డా. రావు వచ్చారు.|ఆయన వెళ్ళారు."),
    ("kn", "ಡಾ. ರಾವ್ ಬಂದರು.|ಅವರು ಹೋದರು."),
    ("ml", "ഡോ. നായർ വന്നു.|അദ്ദേഹം പോയി."),
    ("or", "ସେ ଆସିଲେ।|ସେ ଗଲେ।"),
    ("am", "እሱ መጣ።|እሷ ሄደች።"),
    ("hy", "Նա եկավ։|Նա գնաց։"),
    ("my", "သူလာသည်။|သူသွားသည်။"),
    ("ja", "彼は来た。|彼女は去った。"),
    ("zh", "他来了。|她走了！|真的吗？"),
    ("ko", "그가 왔다.|그녀는 갔다."),
    ("kk", "Ол келді.|Ол кетті."),
    ("de", "Das ist z. B. gut und u. a. neu.|Es bleibt."),
    ("de", "Dr. med. Müller kam.|Er ging."),
    ("de", "Die Fa. Müller zog in die Bahnhofstr. 5.|Sie blieb."),
    ("de", "Im 19. Jahrhundert lebte Friedrich II. von Preußen.|Er starb."),
    ("fr", "Voir p. ex. le tome 3.|C'est bon."),
    ("fr", "Il vit av. J.-C. et après.|Fin."),
    ("fr", "M. et Mme Dupont, c.-à-d. les voisins, partent.|Ils reviennent."),
    ("es", "En EE. UU. vive el Dr. Pérez.|Trabaja."),
    ("es", "Por ej. esto, p. ej. aquello.|Sí."),
    ("es", "La Sra. D.ª Ana vive en la Avda. Sol.|Sale."),
    ("it", "Ad es. la S.p.A. Rossi vende.|Compra."),
    ("it", "Il prof. Bianchi e il dott. Verdi.|Ecco."),
    ("pt", "O Exmo. Sr. Dr. Silva mora na R. Augusta.|Sai."),
    ("nl", "Dit is d.w.z. goed, bijv. morgen.|Klaar."),
    ("nl", "Prof. dr. Jansen kwam.|Hij ging."),
    ("pl", "Jest m.in. tj. tak, np. tutaj o godz. 10.|Koniec."),
    ("pl", "Ul. Długa i al. Krótka.|Koniec."),
    ("ru", "Он живёт на ул. Ленина, д. 5.|Да."),
    ("ru", "Цена 5 руб. за шт.|Дорого."),
    ("cs", "Je to tj. tak, např. tady.|Konec."),
    ("tr", "M.Ö. 5. yüzyılda yaşadı.|Öldü."),
    ("sv", "Det är t.ex. bra, bl.a. nytt.|Slut."),
    ("da", "Det er f.eks. godt, bl.a. nyt.|Slut."),
    ("fi", "Esim. tämä, mm. tuo.|Loppu."),
    ("en", "i. It is slow.|ii. It is big.|We fix it."),
    ("en", "Reasons: 1.) It is slow.|2.) It is big.|We fix it."),
    ("en", "He met Gen. Lee and Sen. Ford at 5 p.m. on Main St. yesterday.|He left."),
    ("en", "Inc. Magazine wrote it.|No. 5 won."),
    ("en", "(Reuters) - It rained.|He left."),
    ("en", "Wait... what?|Yes."),
    ("en", "It rose 3.5 percent.|He paid $1.5m.|Fine."),
    ("en", "Visit www.example.com.|Then go."),
    ("en", "A [sic] B. C. Smith left.|He came."),
    ("en", 'Is it "big"?|It is 6\' 2" tall.|Yes.'),
    ("en", "Jan. 5 came.|Sept. 3 too."),
    # wikimedia/sentencex#62: after list markers
    ("en", "There are two issues: 1) It is slow.|2) It is big.|In this paper, we fix both.|It is fast."),
    ("en", "We ask: (a) Is it slow?|(b) Is it big?|We fix both.|It is fast."),
    ("en", "Limits: (i) It is slow.|(ii) It is big.|We fix both.|It is fast."),
    ("en", "• It is slow.|• It is big.|We fix both.|It is fast."),
    ("en", "Steps: 1. Preheat the oven.|2. Mix the eggs.|Then serve it."),
    ("de", "Zwei Fragen: 1) Ist es schnell?|2) Ist es gut?|Dann endet es.|Es regnet."),
    # nipunsadvilkar/pySBD#86: before citations
    ("en", "Smith et al. [5] propose a parser.|It is fast."),
    ("en", "The U.S. [1] grew.|It fell."),
    ("en", "See cf. [3] for details.|It works."),
    ("en", "It works.[5]|It is fast. [6]|Then it fell."),
    # spencermountain/compromise#1026, nipunsadvilkar/pySBD#122: marks without a partner
    ("en", "I lost my keys :( I looked.|No luck.|Call your dad.|He has a spare :) Good idea."),
    ("en", 'The shelf is 5" wide.|It fits the wall.|The other is 7" wide.|It does not.'),
    ("en", "Price: $5 (approx.|It fell.|Then it rose.|It was high (very) then.|It ended."),
    ("en", "Photo: [AP.|He left.|She stayed.|(Reuters] It rained.|It ended."),
    ("en", "It was the '60s.|Kids' toys sold.|They were fun."),
    ("en", "“He left.|She stayed.|It rained.|It ended.|We went."),
    (
        "en",
        "Stars at z < 2 are old.|We weigh them (see Table 1).|The mass is < 5%.|It (still) grows, as n > 2.|It ends.",
    ),
    (
        "en",
        "The set {a, b is small.|It grows (see Fig. 1).|We read {It is. It was.} in it.|(It is > 2. It grows) so.|End.",
    ),
    ("en", "<b>He left.|She</b> came.|Write to <a@b.org> or see <http://a.b/c>.|It works (so far)."),
    ("en", "(He left. See <http://a.com/>) She came.|We left."),
    ("zh", "‹我来。你走。他留。›|她说。|天晴。"),
    ("zh", "「昨天下雨。|“我来。”他说。|“你呢？”|她走了。|他留下。」|天晴了。"),
    ("fr", "‹ Je viens.|Il part.|Il pleut.|Elle reste.|‹ Non › dit-elle.|Fin."),
    ("zh", "《他来了。|下雨了。|他走了。|她留下。|这是《书》。|完了。"),
    ("ja", "鍵をなくした（笑。|探した。|だめだった。|彼は去った。|一つある）よし。|終わり。"),
    ("hi", 'उसने कहा, "मैं आया।|बारिश हुई।|वह गया।|हम खुश थे।"|अंत हुआ।'),
    ("zh", "他说：“我来了。下雨了！？好。”|完了。"),
    ("zh", "他说：“我来了。|下雨了。|他走了。|她留下。”|完了。"),
    ("en", "Oh no:( I am sick.|Two things;) I slept.|See you:) Bye.|We read (as in f(8) or [1:]) it."),
    # Tessmore/sbd#9: a list ends with the sentence
    ("en", "I love apples, oranges, mango etc.|I want more of it."),
    ("fr", "Il aime les pommes, etc.|Puis il part."),
    ("de", "Das ist usw.|Dann kam er."),
    ("it", "Ha detto sì, ecc.|Poi va."),
    ("nl", "Het is groot, enz.|Toen ging hij."),
    ("ru", "Там был хлеб и т. д.|Он ушёл."),
    # before a small letter, and before a number
    ("en", "He won on Sat. night, at 5 hrs. and more.|We use approx. 5 ml. of water."),
    ("pl", "Było ok. 5 tys. osób i 3 mln zł.|Potem wyszli."),
    ("en", "In Sect. 3 and Def. 2, Thm. 4 holds.|See Refs. 3 and 4, Tab. 5 and Figs. 2 and 3."),
    # times of day, as CNN has them
    ("en", "It opens at 8 p.m. ET Sunday and 5 p.m. Monday.|We met at 5 p.m.|He was late."),
    # diasks2/pragmatic_segmenter: sentences in brackets, and an ellipsis of one character
    ("en", "He left.|(It rained.)|She stayed (alone.) at home."),
    ("en", "The end …|He left…|Then… nothing."),
    # years and units before a capital, which may begin a sentence
    ("ru", "Он поступил в университет в 1990 г.|Потом ушёл."),
    ("ru", "В 1990 г. Иванов поступил в университет.|Потом ушёл."),
    ("pl", "W 2010 r. Polska wygrała.|Urodził się w maju 2010 r.|Potem wyjechał."),
    ("uk", "У 1990 р. Він народився.|Так."),
    # livekit/agents#1811: items without stops
    ("en", "1) The first item|2) The second item"),
    ("en", "Steps: 1. The first item|2. The second item|3. The third"),
    ("en", "a. The first item|b. The second item|c. The third"),
    ("en", "• 9. The first item|• 10. The second item"),
    ("en", "We show 1) It is slow in Fig. 2) It is big."),
    ("en", "On Thurs. and Tues. it rained (cf. Table 3).|They met Atty. Gen. Ken Paxton."),
    # nipunsadvilkar/pySBD#99, HIT-SCIR/ltp#714
    ("zh", '"这是对的。"他说。|“我会去！”王先生告诉记者，“明天去。”|“这条路。”|这条道路很长。'),
    ("zh", "1.灯火彻夜不熄，这已经成为常态。|2.好。"),
    # nltk/nltk#3370, nltk/nltk#2082, and words with stops
    ("en", "It was the Ph.D.'s job.|She is an M.D.: an oncologist."),
    ("en", "He uses ASP.NET and Vue.JS on http://x.org/Page.Html?x=1 now.|Call System.Out.println."),
    # neurosnap/sentences#12: marks alone are no sentence
    ("en", "“The laws will appear less complex. . . .”|He left."),
    ("nl", "Het was raak.|...en toen barstte de hel los."),
    # Hindi with stops in place of dandas
    ("hi", "वह आया.|डॉ. शर्मा गया."),
    # quotations that the sentence continues
    ("ja", "彼は「行く。帰らない。」と言った。|「はい。」|終わり。"),
    ("zh", "“你好！”他说。|“我来了。”|她走了。"),
    # speedyk-005/yasbd-lib#29, #150, #281, #288, fnl/syntok#12: dates, verses, abbreviations before lower case
    ("en", "It is at 9 a.m. Jan. 5.|Trying to get back to Com. & Adm. through the dark.|See Phil. 4:8 for it."),
    ("en", "He met Wm. Shakespeare and Schumer, D-N.Y., in then-U.S. land.|He left."),
    ("es", "El total, aprox. 500 euros, de EE.UU. y del Excmo. Sr. D. Juan.|Bien."),
    ("pt", "O total, aprox. 500 reais, no apto. 3 da Cia. Costa.|Bom."),
    ("it", "Le FF.SS. e la S.r.l. Verdi.|Ecco."),
    ("pl", "Por. rozdz. 5 i rys. 2 na os. Zachód.|Min. Nowak przyszedł, itp.|Koniec."),
    ("ru", "Это напр. так.|Им. Ленина, ул. Мира.|Да."),
    ("ru", "«Пойдём!» — сказал он.|— Да? — спросил он.|— Нет."),
    ("nb", "Kl. 10.30 den 5. mai kom 5 mill. kr. fram.|Han gikk."),
    ("ro", "Str. Lungă nr. 5, bl. 3, cca. 1850.|Da."),
    ("hu", "Kb. 5 km.|Ld. 5. oldal.|2010. 05. 03. napján jött."),
    ("el", "Ο κος. Γιάννης (βλ. εικ. 3).|Ναι."),
    ("sr", "Др. Петровић је дошао.|Отишао је."),
    ("ta", "கி.மு. 500 இல் வாழ்ந்தார்.|இறந்தார்."),
    ("ko", '그는 "간다."라고 말했다.|2010. 5. 3. 그가 왔다.|갔다.'),
    ("nl", "Burg. Jansen kwam 5 jan. 2010, incl. hond.|Hij ging."),
    ("pt", "Ex. e obs. finais, séc. XIX a XX, e fim.|Bom."),
    ("tr", "Atatürk Cad. No. 5, Sok. 3.|Son."),
    ("es", "ella vino.|luego salió."),
    ("zh", "1、第一。|2、第二。"),
    # Unicode's UAX #29, SB11: a number or a small letter after a stop of these scripts begins a sentence
    ("zh", "增长2.5%。|2019年增长2。5倍。|iPhone上市。|“我来。”|20日他去了。|他说“涨了。3成”的话。"),
    ("ja", "会議が開かれた！|20日に終わる？|3回目。"),
    # diasks2/pragmatic_segmenter#35
    ("zh", "我们明天一起去看《摔跤吧！爸爸》好吗？|好！"),
    ("id", "PT. Maju dan CV. Sinar menjual.|Baik."),
    ("vi", "TP. Huế đẹp.|TS. Nam và GS. Lan đi."),
    ("id", "Ia tinggal di Jl. Sudirman no. 5.|Prof. Ani datang."),
    ("id", "Harganya Rp. 3.500 kata KH. Ahmad.|Baik."),
    # marks of direction, and of a byte order within a text
    ("ar", "\u200fوصل.\u200f|\u200fوأضاف \u200fد. أحمد ذلك.|\u202bانتهى.\u202c"),
    ("en", "\ufeffMr. Smith came.|\u2066J. R. Doe\u2069 left.|\u200bDr. Lee slept."),
    # quotation marks of Urdu newspapers, as in csebuetnlp/xl-sum's corpus
    ("ur", "اس نے کہا: ’’ہاں۔‘‘|’’آج۔ کل۔‘‘|’ہاں۔‘|وہ گیا۔"),
    ("en", "‘‘We go. We stay.’’|He left.|‘‘We go.’’|Kids’ toys of the ’80s.|‘Ok.’|Done."),
    # wikimedia/sentencex lacks Khmer; masakhane-io/masakhane-ner#25; speedyk-005/yasbd-lib#320
    ("km", "លោកនិយាយថា «បាទ»។|នាងលក់បន្លែ ។ល។ នៅផ្សារ៕|ចប់។"),
    # tensorflow/datasets, big_patent.py: figures and numbers of patents, and of laws
    ("en", "FIGS. 2A and 2B show it.|See U.S. Pat. Nos. 5,1 and 6,2, and Ser. No. 10/123.|We met Pat.|He won."),
    ("en", "See Pub. L. No. 104-1, C.A. No. 5 and 12 F. Supp. 2d 5.|It is the U.S.|No, he lost 5 yrs. ago."),
    # titles of news within a sentence, and after a quotation mark without a partner
    ("en", "It received Ms. Lee's letter.|“Sen. Roe came.|He left.|\"Gen. Doe has a story.|'(Mr. Lee came."),
    ("es", "Habló el Pdte. García con Mons. Ruiz."),
    ("pt", "Veio o Pe. Silva com o Cel. Lima."),
    ("pl", "Przyszli mjr. Nowak i red. Lis."),
    ("de", "Es sprach Abg. Meier vom Hl. Geist.|Er liegt 9 m ü. NHN im Norden."),
    ("pl", "Przyszła p. Anna z kard. Stefanem, prok. Nowakiem i wicemin. Lisem.|Dał im.|To był sen.|Wyszli."),
    ("nl", "Daar preekte ds. Bakker voor jhr. Six en kard. Simonis.|Dat past.|Hij ging."),
    ("es", "Vinieron fr. Luis, el alm. Cervera, el Rvdo. Gil y el Pbro. Ruiz.|Bien."),
    ("fr", "La maison Vve. Clicquot vend.|Il vit à Mons.|Elle garde le cap.|Oui."),
    ("pt", "Falou o Des. Costa com Fr. Luís.|Quero ir.|Dura 5 min.|Bom."),
    ("it", "Parla il magg. Rossi.|È nella top ten.|Poi esce."),
    ("de", "Es kamen Pfr. Meier, Kard. Marx, Hptm. Roth und Frh. Karl.|Gut."),
    ("ru", "Он живёт в пос. Мирный у оз. Байкал.|Да."),
    # brackets of the Penn Treebank
    ("en", "-LRB- He left in 1901 . -RRB-|She came ."),
    ("am", "እሱ መጣ፡፡|እሷ ሄደች፡፡|«አዎ።»|እሱ ሄደ።"),
    # Unicode's UAX #29, WB7: acronyms, between whose marks sentences were one quotation
    ("he", 'הוא בא לצה"ל.|אחר כך הלך לארה"ב.|הוא אמר: "שלום."|ד"ר כהן בא.'),
    # wikimedia/sentencex takes these words for abbreviations
    ("en", "He came with me.|Dr. Lee said no.|John left me.|30 people stayed (no. 5)."),
    ("es", "Dijo que no.|Está bien.|Habló del no. 5.|No.|Fue."),
    ("it", "È successo tre anni fa.|Poi parla con me.|Dell'UE.|Vai al no. 5."),
    ("sv", "Jag såg det.|Sedan gick han."),
    ("nb", "Jeg så det.|Så gikk han med.|Ja."),
    ("da", "Han gik ned.|Så kom hun med.|Ja."),
    ("cs", "Byl jsem tu.|Pak odešel."),
    ("hr", "Ne vidim ga.|Onda ode."),
    ("ca", "Diu que no.|Vegeu el cap. IX.|Té un trau al cap.|Surt."),
    # speeds, which 34 languages missed
    ("de", "Der Zug fuhr mit 120 km/h.|Dann bremste er."),
    # languagetool's tests of its sentence splitter
    ("fr", "Mrs. America et Mr. Spock sont de St. Louis.|Oui."),
    ("es", "No Mr. Spock sino el Hble. Sr. Presidente."),
    ("ru", "Пришёл Mr. Smith из St. Louis.|Да."),
    ("uk", "Ів. Франко писав (рис. 14, Мал. 5; Арт. 88).|Їх було там 7,5 млн.|В кожного була сорочка."),
    ("am", 'እሷም፣ "መጣ?" ብላ ጠየቀች።|«አዎ፡፡» ብለዋል።'),
    # OpenPecha/Botok#48, tibetan-nlp/classical-tibetan-corpus#1: one mark or two
    ("bo", "བོད་ནི་ཡུལ་ཞིག་རེད།|ང་འགྲོ།།|ཁོ་ཡོང། །|དེབ་ཀློག།"),
    # wikimedia/sentencex ends no sentence before a number in these languages
    ("de", "Er wurde zum Kanzler gewählt.|1990 starb er.|„Wir kommen.“|30 Leute warteten.|Wer?|€30 fehlten."),
    ("de", "Er sagte: „Ich gehe. 30 Leute kommen.“|Siehe Abb. 3, Kap. 5, Rn. 12 (2. Aufl. 2010, gegr. 1900).|Gut."),
    ("de", "Es kostet ca. 30 Euro, d.h. mind. 3,5 Mio. 2010.|Er kam am 3. 5. 1990."),
    ("da", "Han blev valgt.|30 mennesker døde.|17. maj kom han, s. 5."),
    ("fi", "Hänet valittiin.|30 ihmistä kuoli.|1. toukokuuta satoi."),
    ("cs", "Byl zvolen.|30 lidí zemřelo, viz čl. 5 odst. 2 zákona.|1. května pršelo."),
    ("sk", "Bol zvolený.|30 ľudí zomrelo."),
    ("ca", "Va ser elegit.|30 persones van morir."),
    ("kk", "Ол сайланды.|30 адам өлді."),
    # stanfordnlp/CoreNLP#380, markuskiller/textblob-de#8: dates and ordinals before names
    ("de", "Freitag, 5. Mai, und Montag, 3. Oktober: Feiertag.|Sein 3. Platz bis ins 19. Jahrhundert.|Gut."),
    ("de", "Hier fielen im Jahr 550 mm.|Gut."),
    ("en", "The rate rose.12|However, it fell again.3–5,7|See fig.3 of Version.2 now.|It stopped."),
    # abbreviations before a name or a number
    ("en", "The firm, est. 1990, is in Bldg. 5, Ste. 200.|See iss. 2, par. 5 of Vols. 3 and 4, Eds. Smith and Lee."),
    ("en", "Tel. 555-1234, ext. 5.|The avg. 5 and std. 3 of Lett. 5 on Fri. 8 May."),
    ("de", "Herr Müller, geb. 5. Mai 1950, kam, insb. Anna.|Das sind durchschn. 4 Stück."),
    ("fr", "Les pays, c.-à-d. Malte, incl. Chypre.|Tél. 01 23 45.|Appelez."),
    ("es", "La 2.ª ed. 2020 es del 3 de ene. 2020, cf. Gómez.|Es buena."),
    ("pt", "Tel. 21 555.|Os países, incl. Malta, cf. Silva."),
    ("nl", "De landen, o.a. Malta, d.w.z. Cyprus, incl. Kreta.|Piet, overl. 3 mei, zie afb. 4."),
    ("sv", "Länder, t.ex. Malta, dvs. Cypern, resp. Kreta.|Tel. 08-123 45, ca. 3 mdr. 5."),
    ("da", "Lande, bl.a. Malta, fx. Cypern.|Tlf. 12345678."),
    ("nb", "Land, f.eks. Malta, dvs. Kypros, inkl. Kreta, pga. Anna.|Tlf. 12345678."),
    ("pl", "Jan ur. 5 maja w Łodzi, zm. 3 maja, m.in. Anna.|Dał im.|Tel. 555, tj. Jan, bł. Paweł, dn. 5 maja."),
    ("cs", "Novák, nar. 5. května, mj. Anna, popř. Jan.|Otec zem. 3. května, vč. Evy.|Padl na zem.|Vstal."),
    ("sk", "Novák, nar. 5. mája, t. j. Anna, vrát. Jána.|Prišiel."),
    ("hu", "Kovács, szül. 1950. május 5., az ún. Anna.|Ő jött."),
    ("ru", "Пришёл он, т.е. Иванов, т. е. Пётр, ср. Анна.|Тел. 123-45-67, ген. Петров.|Звоните."),
    ("bg", "Той, т.е. Иван, т.нар. Петър.|Дойде."),
    ("hr", "Zemlje, npr. Malta, tj. Cipar, tzv. Kreta, sv. Ana.|Otišao je."),
    ("sl", "Države, npr. Malta, tj. Ciper, sv. Ana.|Videl ga.|Odšel je."),
    ("tr", "Örn. Malta, bkz. Kıbrıs, Hz. Ali, şek. 3.|Geldi."),
    ("el", "Ο αγ. Πέτρος, δηλ. Αυτός, πρβλ. Άννα.|Έφυγε."),
    ("ro", "Țări, de ex. Malta, d-na. Ana.|A plecat."),
    ("id", "Negara, mis. Malta, Yth. Ibu Ana.|Ia pergi."),
    ("et", "Riigid, nt. Malta, nn. Kreeta.|Ta läks."),
    ("lv", "Valstis, piem. Malta.|Viņš aizgāja."),
    ("lt", "Šalys, pvz. Malta, plg. Kreta.|Jis išėjo."),
    ("is", "Lönd, t.d. Malta, m.a. Krít.|Hann fór."),
    ("af", "Lande, bv. Malta, mnr. Botha.|Hy het gegaan."),
]


@pytest.mark.parametrize(("language", "text"), CASES_OF_SENTENCES)
def test_sentences(language, text):
    # these languages have no space between sentences
    joiner = "" if language in ("zh", "ja", "my", "bo") else " "
    assert split_sentences(text.replace("|", joiner), language) == text.split("|")


def test_sentences_without_space_between():
    assert split_sentences("Mary had a lamb.Mary had it.") == ["Mary had a lamb.", "Mary had it."]


# lines are sentences (anoopkunchukuttan/indic_nlp_library#70)
CASES_OF_PIPES = [("hi", "वह गया|\nवह आया|\nख़बर | आज तक"), ("bn", "সে গেল|\nসে এল|")]


@pytest.mark.parametrize(("language", "text"), CASES_OF_PIPES)
def test_pipes_in_place_of_dandas(language, text):
    assert split_sentences(text.replace("\n", " "), language) == text.split("\n")


def test_characters_are_hidden_one_for_one():
    for text in (WRAPPED, "a) b (c \"d. 1. E :( „f“ ” ‘ ' )", ""):
        twin, _ = twin_and_starts(text)
        assert len(twin) == len(text)


TEXTS_OF_LINES = [
    "The mayor opened a bridge on Monday\nThe mill burned for two whole hours\nPolice now look for any witnesses",
    "A cat sat.\nA dog ran.\nA bird flew away.",
    "one two\nthree",
    "Alice\nBob\nCarol",
]


@pytest.mark.parametrize("text", TEXTS_OF_LINES)
def test_lines_that_are_sentences_stay_so(text):
    assert split_sentences(text) == text.split("\n")
