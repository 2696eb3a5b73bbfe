# Finds nvcc if TCONV_CUDA permits, sets TCONV_WITH_CUDA and the architectures, and makes the CUDA object targets.

set(TCONV_WITH_CUDA OFF)
if(NOT TCONV_CUDA STREQUAL OFF)
  include(CheckLanguage)
  if(NOT CMAKE_CUDA_COMPILER AND EXISTS /usr/local/cuda/bin/nvcc)
    set(CMAKE_CUDA_COMPILER /usr/local/cuda/bin/nvcc)
  endif()
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    set(TCONV_WITH_CUDA ON)
  elseif(TCONV_CUDA STREQUAL ON)
    message(FATAL_ERROR "TCONV_CUDA=ON, but no CUDA compiler was found")
  endif()
endif()

# While developing, only 90a. The preset release-all passes "release", the whole set, and a Python package is built for
# that set too, because it may run on any GPU. Code for 8.0 also runs on 8.6 and 8.9, and 12.0 includes PTX for later GPUs.
set(TCONV_CUDA_RELEASE_ARCHITECTURES "75-real;80-real;90a-real;100-real;120")
if(TCONV_WITH_CUDA)
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    if(DEFINED ENV{CUDAARCHS})
      set(CMAKE_CUDA_ARCHITECTURES $ENV{CUDAARCHS})
    elseif(SKBUILD)
      set(CMAKE_CUDA_ARCHITECTURES release)
    else()
      set(CMAKE_CUDA_ARCHITECTURES 90a-real)
    endif()
  endif()
  if(CMAKE_CUDA_ARCHITECTURES STREQUAL "release")
    set(CMAKE_CUDA_ARCHITECTURES ${TCONV_CUDA_RELEASE_ARCHITECTURES})
    set(TCONV_CUDA_COMPRESSED ON)  # a quarter of the size; the driver unpacks what a device needs
  endif()
  enable_language(CUDA)
  # CMake 3.25 does not know how CUDA 13's nvcc spells the dialect.
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.4)
    message(FATAL_ERROR "CUDA ${CMAKE_CUDA_COMPILER_VERSION} is too old: 12.4 or later")
  endif()
  find_package(CUDAToolkit REQUIRED)
  set(TCONV_CUDA_LIBRARIES CUDA::cudart_static)
endif()
message(STATUS "tconv: CUDA ${TCONV_WITH_CUDA} ${CMAKE_CUDA_ARCHITECTURES}")

# src/cuda/host and every kernel family; without nvcc, the empty list in src/cuda/no_cuda.cpp.
function(tconv_cuda_folders)
  if(NOT TCONV_WITH_CUDA)
    tconv_cuda_target(tconv_src_cuda src/cuda/no_cuda.cpp)
    return()
  endif()
  string(REGEX REPLACE "([0-9]+a?)(-real)?" "sm_\\1" targets "${CMAKE_CUDA_ARCHITECTURES}")
  string(REPLACE ";" " " targets "${targets}")
  set_source_files_properties(src/cuda/host/entries.cpp PROPERTIES COMPILE_DEFINITIONS
                              "TCONV_CUDA_TARGETS=\"${targets}\"")
  foreach(folder host plan simt sm80 sm90)
    file(GLOB sources CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
         ${PROJECT_SOURCE_DIR}/src/cuda/${folder}/*.cpp ${PROJECT_SOURCE_DIR}/src/cuda/${folder}/*.cu)
    if(sources)
      tconv_cuda_target(tconv_src_cuda_${folder} ${sources})
      tconv_family_architectures(${folder} architectures)
      set_target_properties(tconv_src_cuda_${folder} PROPERTIES CUDA_ARCHITECTURES "${architectures}")
      if(folder STREQUAL sm90)  # fails if ptxas serialises wgmma
        set_target_properties(tconv_src_cuda_${folder} PROPERTIES CUDA_COMPILER_LAUNCHER
                              "${PROJECT_SOURCE_DIR}/scripts/checked_nvcc;${CMAKE_CUDA_COMPILER_LAUNCHER}")
      endif()
    endif()
  endforeach()
endfunction()

# The architectures that a family has code for: compiling its sources for others takes long and yields nothing.
function(tconv_family_architectures folder out)
  set(kept ${CMAKE_CUDA_ARCHITECTURES})
  if(folder STREQUAL sm80)
    list(FILTER kept EXCLUDE REGEX "^75")
  elseif(folder STREQUAL sm90)
    list(FILTER kept INCLUDE REGEX "^90a")
  endif()
  if(NOT kept)
    set(kept ${CMAKE_CUDA_ARCHITECTURES})
  endif()
  set(${out} ${kept} PARENT_SCOPE)
endfunction()

function(tconv_cuda_target name)
  add_library(${name} OBJECT ${ARGN})
  set_target_properties(${name} PROPERTIES CUDA_VISIBILITY_PRESET hidden)
  target_link_libraries(${name} PRIVATE tconv_flags hwy::hwy Threads::Threads ${TCONV_CUDA_LIBRARIES})
  if(TCONV_WITH_CUDA)
    target_compile_options(${name} PRIVATE
      "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;-Xcompiler=-Wall>"
      "$<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${TCONV_CUDA_COMPRESSED}>>:-Xfatbin=-compress-all>"
      "$<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${TCONV_CUDA_LINEINFO}>>:-lineinfo>")
  endif()
  set_property(GLOBAL APPEND PROPERTY TCONV_OBJECT_TARGETS ${name})
endfunction()
