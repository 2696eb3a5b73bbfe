// Structs of every size: what init writes, what is taken, what is refused. tests/capi/CMakeLists.txt has
// programs of other headers.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tconv/tconv.h"

namespace {

// Bytes that look like one of the structs, at an address that suits none of its fields.
class Bytes {
 public:
  explicit Bytes(std::size_t size) : memory_(size + 1 + kGuard, 0xa5) {}
  void* at() { return memory_.data() + 1; }
  template <class T>
  T* as() {
    return static_cast<T*>(at());
  }
  uint32_t stated() {
    uint32_t size = 0;
    std::memcpy(&size, at(), sizeof size);
    return size;
  }
  void state(uint32_t size) { std::memcpy(at(), &size, sizeof size); }
  bool zero(std::size_t begin, std::size_t end) const { return all(0, begin, end); }
  bool untouched_from(std::size_t begin) const { return all(0xa5, begin, memory_.size() - 1); }

 private:
  bool all(unsigned char value, std::size_t begin, std::size_t end) const {
    for (std::size_t i = begin; i < end; ++i) {
      if (memory_[i + 1] != value) return false;
    }
    return true;
  }
  static constexpr std::size_t kGuard = 64;
  std::vector<unsigned char> memory_;
};

template <class T>
struct Of;
template <>
struct Of<tconv_problem> {
  static constexpr const char* name = "tconv_problem";
  static constexpr std::size_t least = 128;  // the first header's
  static tconv_status init(tconv_problem* p, std::size_t size) { return tconv_problem_init_sized(p, size); }
  static tconv_status use(tconv_problem* p) {
    std::size_t length = 0;
    return tconv_problem_text(p, nullptr, 0, &length);
  }
};
template <>
struct Of<tconv_plan_options> {
  static constexpr const char* name = "tconv_plan_options";
  static constexpr std::size_t least = 56;  // the first header's
  static tconv_status init(tconv_plan_options* o, std::size_t size) {
    return tconv_plan_options_init_sized(o, size);
  }
  static tconv_status use(tconv_plan_options* o) {
    tconv_problem problem;
    if (tconv_problem_parse("n0 ci1 co1 l1 k1", &problem) != TCONV_OK) return TCONV_INTERNAL_ERROR;
    tconv_plan* plan = nullptr;
    const tconv_status status = tconv_plan_create(&problem, o, &plan);
    tconv_plan_destroy(plan);
    return status;
  }
};
template <>
struct Of<tconv_arguments> {
  static constexpr const char* name = "tconv_arguments";
  static constexpr std::size_t least = 80;  // the first header's
  static tconv_status init(tconv_arguments* a, std::size_t size) {
    return tconv_arguments_init_sized(a, size);
  }
  static tconv_status use(tconv_arguments* a) {
    tconv_problem problem;
    tconv_plan* plan = nullptr;
    if (tconv_problem_parse("n0 ci1 co1 l1 k1", &problem) != TCONV_OK) return TCONV_INTERNAL_ERROR;
    if (tconv_plan_create(&problem, nullptr, &plan) != TCONV_OK) return TCONV_INTERNAL_ERROR;
    const tconv_status status = tconv_run(plan, a);
    tconv_plan_destroy(plan);
    return status;
  }
};

template <class T>
class StructTest : public testing::Test {};
using Structs = testing::Types<tconv_problem, tconv_plan_options, tconv_arguments>;
TYPED_TEST_SUITE(StructTest, Structs);

TYPED_TEST(StructTest, InitFillsWhatTheCallerHasAndNoMore) {
  for (std::size_t size : {sizeof(TypeParam), sizeof(TypeParam) + 8, std::size_t{4096}}) {
    Bytes bytes(size);
    ASSERT_EQ(Of<TypeParam>::init(bytes.as<TypeParam>(), size), TCONV_OK) << tconv_last_error();
    EXPECT_EQ(bytes.stated(), size);
    EXPECT_TRUE(bytes.zero(sizeof(TypeParam), size));
    EXPECT_TRUE(bytes.untouched_from(size));
    EXPECT_EQ(Of<TypeParam>::use(bytes.as<TypeParam>()), TCONV_OK) << tconv_last_error();
  }
}

TYPED_TEST(StructTest, InitRefusesNullAndSizesOfNoVersion) {
  EXPECT_EQ(Of<TypeParam>::init(nullptr, sizeof(TypeParam)), TCONV_INVALID_ARGUMENT);
  EXPECT_NE(std::string(tconv_last_error()).find(" is null"), std::string::npos) << tconv_last_error();
  for (std::size_t size :
       {std::size_t{0}, std::size_t{4}, Of<TypeParam>::least - 1, std::size_t{4097}, SIZE_MAX}) {
    Bytes bytes(4096);
    EXPECT_EQ(Of<TypeParam>::init(bytes.as<TypeParam>(), size), TCONV_INVALID_ARGUMENT) << size;
    EXPECT_EQ(
        std::string(tconv_last_error()).rfind("struct_size is " + std::to_string(size) + ": must be ", 0), 0u)
        << tconv_last_error();
    EXPECT_TRUE(bytes.untouched_from(0)) << size;
  }
}

TYPED_TEST(StructTest, StatedSizesOfNoVersionAreRefused) {
  for (uint32_t size :
       {uint32_t{0}, uint32_t{4}, uint32_t{Of<TypeParam>::least - 1}, uint32_t{4097}, UINT32_MAX}) {
    Bytes bytes(4096);
    ASSERT_EQ(Of<TypeParam>::init(bytes.as<TypeParam>(), 4096), TCONV_OK);
    bytes.state(size);
    EXPECT_EQ(Of<TypeParam>::use(bytes.as<TypeParam>()), TCONV_INVALID_ARGUMENT) << size;
    const std::string message = tconv_last_error();
    EXPECT_NE(
        message.find("->struct_size is " + std::to_string(size) + ": must be sizeof(" + Of<TypeParam>::name),
        std::string::npos)
        << message;
  }
}

TYPED_TEST(StructTest, BytesThatTheLibraryDoesNotKnowMustBeZero) {
  const std::size_t size = 4096;
  Bytes bytes(size);
  ASSERT_EQ(Of<TypeParam>::init(bytes.as<TypeParam>(), size), TCONV_OK);
  for (std::size_t i : {sizeof(TypeParam) + 8, size - 1}) {  // past a field that a grown library would know
    auto* byte = static_cast<unsigned char*>(bytes.at()) + i;
    *byte = 1;
    EXPECT_EQ(Of<TypeParam>::use(bytes.as<TypeParam>()), TCONV_INVALID_ARGUMENT) << i;
    EXPECT_NE(std::string(tconv_last_error()).find("and byte " + std::to_string(i) + " is not 0"),
              std::string::npos)
        << tconv_last_error();
    *byte = 0;
  }
  EXPECT_EQ(Of<TypeParam>::use(bytes.as<TypeParam>()), TCONV_OK) << tconv_last_error();
}

TEST(ParseTest, FillsWhatTheCallerHas) {
  const std::size_t size = sizeof(tconv_problem) + 24;
  Bytes bytes(size);
  ASSERT_EQ(tconv_problem_parse_sized("gx ci3 co1 l1 k1 f64", bytes.as<tconv_problem>(), size), TCONV_OK);
  EXPECT_EQ(bytes.stated(), size);
  EXPECT_TRUE(bytes.zero(sizeof(tconv_problem), size));
  EXPECT_TRUE(bytes.untouched_from(size));
  tconv_problem problem;
  EXPECT_EQ(tconv_problem_parse_sized("ci1 co1 l1 k1", &problem, 8), TCONV_INVALID_ARGUMENT);
  EXPECT_EQ(tconv_problem_parse_sized("ci1 co1 l1 k1", nullptr, sizeof problem), TCONV_INVALID_ARGUMENT);
  EXPECT_STREQ(tconv_last_error(), "problem is null");
}

}  // namespace
