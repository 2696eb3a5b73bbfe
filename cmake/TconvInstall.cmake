# Headers, library, CMake package and pkg-config file.
include(CMakePackageConfigHelpers)

install(TARGETS tconv EXPORT tconv_targets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library
        RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT library)
install(FILES include/tconv/tconv.h include/tconv/tconv.hpp
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tconv COMPONENT library)
install(EXPORT tconv_targets NAMESPACE tconv:: FILE tconvTargets.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tconv COMPONENT library)
configure_package_config_file(cmake/tconvConfig.cmake.in ${PROJECT_BINARY_DIR}/tconvConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tconv)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tconvConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tconvConfig.cmake ${PROJECT_BINARY_DIR}/tconvConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tconv COMPONENT library)
configure_file(cmake/tconv.pc.in ${PROJECT_BINARY_DIR}/tconv.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tconv.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT library)
