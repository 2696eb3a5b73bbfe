# Functions that turn folders into object targets and object targets into the library.

# Everything that is compiled or linked in a sanitized build uses this target.
add_library(tconv_sanitize INTERFACE)
if(TCONV_SANITIZE)
  target_compile_options(tconv_sanitize INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${TCONV_SANITIZE}>
    $<$<COMPILE_LANGUAGE:CXX>:-fno-omit-frame-pointer> $<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize-recover=all>)
  target_link_options(tconv_sanitize INTERFACE -fsanitize=${TCONV_SANITIZE})
  # One SIMD target instead of four: instrumented SIMD sources are slow to compile.
  if(CMAKE_SYSTEM_PROCESSOR STREQUAL x86_64)
    target_compile_definitions(tconv_sanitize INTERFACE HWY_COMPILE_ONLY_STATIC)
    target_compile_options(tconv_sanitize INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-march=haswell>)
  endif()
endif()

add_library(tconv_flags INTERFACE)
target_link_libraries(tconv_flags INTERFACE tconv_sanitize)
target_include_directories(tconv_flags INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
# -ffp-contract=off: the same bits from every compiler and SIMD target; kernels ask for FMA by name.
target_compile_options(tconv_flags INTERFACE
  # -Wno-restrict: GCC 12 warns falsely on std::string sums (its bug 105329).
  $<$<COMPILE_LANGUAGE:CXX>:-Wall> $<$<COMPILE_LANGUAGE:CXX>:-Wextra> $<$<COMPILE_LANGUAGE:CXX>:-Wshadow>
  $<$<COMPILE_LANGUAGE:CXX>:-Wconversion> $<$<COMPILE_LANGUAGE:CXX>:-Wno-sign-conversion>
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict> $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)

set_property(GLOBAL PROPERTY TCONV_OBJECT_TARGETS "")

# tconv_folder(src/core): every source of the folder becomes the object target tconv_src_core.
function(tconv_folder folder)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cpp)
  string(REPLACE "/" "_" name tconv_${folder})
  add_library(${name} OBJECT ${sources})
  target_link_libraries(${name} PRIVATE tconv_flags hwy::hwy Threads::Threads)
  set_property(GLOBAL APPEND PROPERTY TCONV_OBJECT_TARGETS ${name})
endfunction()

# Every src/cpu/<family> with sources, beside threads.
function(tconv_cpu_kernel_folders)
  file(GLOB families LIST_DIRECTORIES true RELATIVE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src/cpu/*)
  foreach(family ${families})
    file(GLOB sources ${PROJECT_SOURCE_DIR}/${family}/*.cpp)
    if(sources AND NOT family STREQUAL src/cpu/threads)
      tconv_folder(${family})
    endif()
    # Clang compiles a SIMD source for minutes with the undefined-behaviour sanitizer, 141 s instead of 10 for
    # dense/compute_f32.cpp. The asan preset has these sources under it; the fuzzers have it on all others, planners too.
    if(TCONV_FUZZ)
      list(FILTER sources INCLUDE REGEX "/(simd|bias_simd|pack|compute_[a-z0-9]+)\\.cpp$")
      set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS -fno-sanitize=undefined)
    endif()
  endforeach()
endfunction()

# The shared library, the static library, and tconv_internal: the static one with access to src/, for tools and tests.
function(tconv_library)
  get_property(targets GLOBAL PROPERTY TCONV_OBJECT_TARGETS)
  set(objects "")
  foreach(target ${targets})
    list(APPEND objects $<TARGET_OBJECTS:${target}>)
  endforeach()
  set(public_headers $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

  add_library(tconv_static STATIC ${objects})
  add_library(tconv::static ALIAS tconv_static)
  set_target_properties(tconv_static PROPERTIES OUTPUT_NAME tconv EXPORT_NAME static)
  target_include_directories(tconv_static PUBLIC ${public_headers})
  target_link_libraries(tconv_static PRIVATE $<BUILD_INTERFACE:tconv_sanitize> hwy::hwy Threads::Threads
                                             ${TCONV_CUDA_LIBRARIES})
  set_target_properties(tconv_static PROPERTIES LINKER_LANGUAGE CXX)

  add_library(tconv_internal INTERFACE)
  target_link_libraries(tconv_internal INTERFACE tconv_static tconv_flags hwy::hwy Threads::Threads
                                                 ${TCONV_CUDA_LIBRARIES})

  add_library(tconv SHARED ${objects})
  add_library(tconv::tconv ALIAS tconv)
  target_include_directories(tconv PUBLIC ${public_headers})
  target_link_libraries(tconv PRIVATE $<BUILD_INTERFACE:tconv_sanitize> hwy::hwy Threads::Threads ${TCONV_CUDA_LIBRARIES})
  target_link_options(tconv PRIVATE -Wl,-z,nodelete)  # detached pool threads outlive a dlclose
  set_target_properties(tconv PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${TCONV_ABI})
  # Export the C API and nothing else, not even the standard library's inline type infos.
  target_link_options(tconv PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/tconv.map)
  set_target_properties(tconv PROPERTIES LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/tconv.map)
  add_subdirectory(${PROJECT_SOURCE_DIR}/bindings/common ${PROJECT_BINARY_DIR}/bindings/common)
  include(TconvInstall)
endfunction()
