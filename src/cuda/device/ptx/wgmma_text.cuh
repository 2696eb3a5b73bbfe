// The text of a wgmma instruction, and its 16, 32, 64, 96 or 128 sums d as operands. Macros, because a
// template cannot write the operands of inline assembly.
#pragma once

#define TCONV_SUMS_8(d, i)                                                                    \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define TCONV_SUMS_16(d) TCONV_SUMS_8(d, 0), TCONV_SUMS_8(d, 8)
#define TCONV_SUMS_32(d, i) \
  TCONV_SUMS_8(d, i), TCONV_SUMS_8(d, i + 8), TCONV_SUMS_8(d, i + 16), TCONV_SUMS_8(d, i + 24)
#define TCONV_SUMS_64(d) TCONV_SUMS_32(d, 0), TCONV_SUMS_32(d, 32)
#define TCONV_SUMS_96(d) TCONV_SUMS_64(d), TCONV_SUMS_32(d, 64)
#define TCONV_SUMS_128(d) TCONV_SUMS_96(d), TCONV_SUMS_32(d, 96)
#define TCONV_NAMES_16 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define TCONV_NAMES_32                                                                             \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25," \
  "%26,%27,%28,%29,%30,%31"
#define TCONV_NAMES_64                                                                                    \
  TCONV_NAMES_32                                                                                          \
  ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56," \
  "%57,%58,%59,%60,%61,%62,%63"
#define TCONV_NAMES_96                                                                                    \
  TCONV_NAMES_64                                                                                          \
  ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88," \
  "%89,%90,%91,%92,%93,%94,%95"
#define TCONV_NAMES_128                                                                               \
  TCONV_NAMES_96                                                                                      \
  ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115," \
  "%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
// da, db: the operands. `tail`: the scales of both and, for 16-bit types, which of their dimensions is the
// inner one.
#define TCONV_WGMMA(shape, types, names, da, db, accumulate, tail)                                       \
  "{.reg .pred p;\nsetp.ne.b32 p, " accumulate ", 0;\nwgmma.mma_async.sync.aligned." shape ".f32." types \
  " {" names "}, " da ", " db ", p, " tail ";}\n"
