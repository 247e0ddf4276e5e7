# version.cpp: tool version and git commit, written anew at build time but touched only when they change.
set(XSTAGE_VERSION_SOURCE "${PROJECT_BINARY_DIR}/generated/version.cpp")
set(write_version
  "${CMAKE_COMMAND}" -D "SOURCE=${PROJECT_SOURCE_DIR}" -D "VERSION=${PROJECT_VERSION}"
  -D "TEMPLATE=${PROJECT_SOURCE_DIR}/src/version.cpp.in" -D "OUTPUT=${XSTAGE_VERSION_SOURCE}"
  -P "${PROJECT_SOURCE_DIR}/cmake/write_version.cmake")
add_custom_target(xstage_version BYPRODUCTS "${XSTAGE_VERSION_SOURCE}" COMMAND ${write_version}
  COMMENT "Reading the git commit" VERBATIM)
