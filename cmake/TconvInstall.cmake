# Headers, libraries, CMake package, pkg-config file and licences. Components: library (shared), static, cache, program,
# python.
include(CMakePackageConfigHelpers)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/tconv)

install(TARGETS tconv EXPORT tconv_targets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library
        RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT library)
install(EXPORT tconv_targets NAMESPACE tconv:: FILE tconvTargets.cmake DESTINATION ${package} COMPONENT library)
# A separate file: programs that link the shared library need none of the static library's dependencies.
install(TARGETS tconv_static EXPORT tconv_static_targets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT static)
install(EXPORT tconv_static_targets NAMESPACE tconv:: FILE tconvStaticTargets.cmake
        DESTINATION ${package} COMPONENT static)
install(TARGETS tconv_cache EXPORT tconv_cache_targets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT cache
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT tconv_cache_targets NAMESPACE tconv:: FILE tconvCacheTargets.cmake
        DESTINATION ${package} COMPONENT cache)
install(FILES bindings/common/include/tconv/cache.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tconv COMPONENT cache)
install(FILES include/tconv/tconv.h include/tconv/tconv.hpp
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tconv COMPONENT library)
install(FILES LICENSE python/licences/third-party.txt DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT library)

configure_package_config_file(cmake/tconvConfig.cmake.in ${PROJECT_BINARY_DIR}/tconvConfig.cmake
                              INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tconvConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tconvConfig.cmake ${PROJECT_BINARY_DIR}/tconvConfigVersion.cmake
        DESTINATION ${package} COMPONENT library)

# Paths are relative to the .pc file itself, so that an installed tree can be moved and `cmake --install --prefix` can name
# another prefix. An absolute libdir or includedir stays absolute.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  set(TCONV_PC_PREFIX ${CMAKE_INSTALL_PREFIX})
  set(TCONV_PC_LIBDIR ${CMAKE_INSTALL_LIBDIR})
else()
  file(RELATIVE_PATH up /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
  string(REGEX REPLACE "/$" "" up "${up}")
  set(TCONV_PC_PREFIX "\${pcfiledir}/${up}")
  set(TCONV_PC_LIBDIR "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
endif()
if(IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
  set(TCONV_PC_INCLUDEDIR ${CMAKE_INSTALL_INCLUDEDIR})
else()
  set(TCONV_PC_INCLUDEDIR "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
# What a program needs beside libtconv.a (pkg-config --static). Highway's folder is named where the linker does not
# look there by itself; a cross build has Highway's headers alone.
set(TCONV_PC_PRIVATE -lstdc++ -lm -lpthread)
get_target_property(hwy_type hwy::hwy TYPE)
if(NOT hwy_type STREQUAL INTERFACE_LIBRARY)
  set(hwy_folder $<TARGET_FILE_DIR:hwy::hwy>)
  string(JOIN "," known ${CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES})
  string(REPLACE "," "$<SEMICOLON>" known "${known}")
  set(hwy_known $<IN_LIST:${hwy_folder},${known}>)
  list(PREPEND TCONV_PC_PRIVATE "$<$<NOT:${hwy_known}>:-L${hwy_folder} >-lhwy")
endif()
if(TCONV_WITH_CUDA)
  list(APPEND TCONV_PC_PRIVATE -L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -lrt -ldl)
endif()
list(JOIN TCONV_PC_PRIVATE " " TCONV_PC_PRIVATE)
configure_file(cmake/tconv.pc.in ${PROJECT_BINARY_DIR}/tconv.pc.in @ONLY)
file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/tconv.pc INPUT ${PROJECT_BINARY_DIR}/tconv.pc.in)
install(FILES ${PROJECT_BINARY_DIR}/tconv.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT library)
configure_file(cmake/tconv-cache.pc.in ${PROJECT_BINARY_DIR}/tconv-cache.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tconv-cache.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT cache)
