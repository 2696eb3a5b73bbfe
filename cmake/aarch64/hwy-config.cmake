# Highway for a cross build: the headers of this machine's libhwy-dev, which serve every architecture, without
# the library, which serves this machine's alone. With one SIMD target (NEON) nothing of the library is called.
# They are linked to by themselves: the rest of /usr/include is not for the cross compiler.
find_path(TCONV_HWY_HEADERS hwy/highway.h PATHS /usr/include /usr/local/include NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH)
if(NOT TCONV_HWY_HEADERS)
  set(hwy_FOUND FALSE)
  set(hwy_NOT_FOUND_MESSAGE "no hwy/highway.h in /usr/include (package libhwy-dev)")
  return()
endif()
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/highway)
file(CREATE_LINK ${TCONV_HWY_HEADERS}/hwy ${CMAKE_BINARY_DIR}/highway/hwy SYMBOLIC)
add_library(hwy::hwy INTERFACE IMPORTED)
target_include_directories(hwy::hwy INTERFACE ${CMAKE_BINARY_DIR}/highway)
target_compile_definitions(hwy::hwy INTERFACE HWY_COMPILE_ONLY_STATIC)
