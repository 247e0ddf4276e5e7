# `cmake --install`: libraries, headers, find_package(xstage) and pkg-config. What is installed depends on what was built:
#
#   xstage::xstage      model, files, fit, audit, simulated and recorded nodes
#   xstage::cuda_node   the node of real GPUs; without nvcc what says that there is none
#   xstage::device, xstage::operators, xstage::kernels   the fused kernels, with nvcc and XSTAGE_OPERATORS
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(xstage_libraries "")
foreach(library xstage xstage_cuda_node xstage_device xstage_operators xstage_kernels)
  if(TARGET ${library})
    string(REGEX REPLACE "^xstage_" "" name ${library})
    add_library(xstage::${name} ALIAS ${library})
    set_target_properties(${library} PROPERTIES EXPORT_NAME ${name})
    list(APPEND xstage_libraries ${library})
  endif()
endforeach()

# An installation is asked for by whoever installs this project, not by a project around it.
if(NOT PROJECT_IS_TOP_LEVEL)
  return()
endif()

install(TARGETS ${xstage_libraries} EXPORT xstage_targets ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT library)
install(DIRECTORY include/xstage DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT library FILES_MATCHING PATTERN "*.hpp")
set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/xstage")
install(EXPORT xstage_targets NAMESPACE xstage:: FILE xstage-targets.cmake DESTINATION "${package_folder}" COMPONENT library)
configure_package_config_file(cmake/xstage-config.cmake.in "${PROJECT_BINARY_DIR}/package/xstage-config.cmake"
  INSTALL_DESTINATION "${package_folder}")
# Before 1.0 any minor version may change an interface.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/package/xstage-config-version.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES
  "${PROJECT_BINARY_DIR}/package/xstage-config.cmake" "${PROJECT_BINARY_DIR}/package/xstage-config-version.cmake"
  DESTINATION "${package_folder}" COMPONENT library)

# pkg-config: xstage.pc, and where there is CUDA xstage-kernels.pc with everything.
configure_file(cmake/xstage.pc.in "${PROJECT_BINARY_DIR}/package/xstage.pc" @ONLY)
set(package_files "${PROJECT_BINARY_DIR}/package/xstage.pc")
if(TARGET xstage_kernels)
  configure_file(cmake/xstage-kernels.pc.in "${PROJECT_BINARY_DIR}/package/xstage-kernels.pc" @ONLY)
  list(APPEND package_files "${PROJECT_BINARY_DIR}/package/xstage-kernels.pc")
endif()
install(FILES ${package_files} DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT library)
