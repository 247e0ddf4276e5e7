# Flags of our own code, carried by two interface targets:
#   xstage_compiler         language level, warnings as errors, sanitizers
#   xstage_portable_binary  an executable that needs nothing beyond the C library
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

set(XSTAGE_HOST_WARNINGS -Wall -Wextra -Wshadow -Wconversion -Wsign-conversion -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 warns about std::string's own operator+ (gcc.gnu.org/PR105651, fixed in 13).
  list(APPEND XSTAGE_HOST_WARNINGS -Wno-restrict)
endif()

add_library(xstage_compiler INTERFACE)
target_compile_features(xstage_compiler INTERFACE cxx_std_20)
target_compile_options(xstage_compiler INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${XSTAGE_HOST_WARNINGS};-Wpedantic>")

if(XSTAGE_SANITIZE)
  set(sanitizers -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_compile_options(xstage_compiler INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${sanitizers}>")
  target_link_options(xstage_compiler INTERFACE ${sanitizers})
endif()
if(XSTAGE_FUZZ)
  target_compile_options(xstage_compiler INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=fuzzer-no-link>")
endif()

add_library(xstage_portable_binary INTERFACE)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT XSTAGE_SANITIZE)
  target_link_options(xstage_portable_binary INTERFACE -static-libstdc++ -static-libgcc)
endif()
