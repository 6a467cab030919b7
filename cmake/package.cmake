# cpack: a package for the Debian on which it is built.
#
#   cmake -B build/package -DCMAKE_INSTALL_PREFIX=/usr -DONLYONCE_TESTS=OFF && cmake --build build/package
#   (cd build/package && cpack)
#
# What only a package has (service, configuration, changelog) is the component "debian", which "cmake --install" leaves alone.
set(ONLYONCE_MAINTAINER "The onlyonce authors <onlyonce@example.org>" CACHE STRING
    "Maintainer of the package: who builds it for others gives an address that is read")

install(FILES config/completion/onlyonce.bash RENAME onlyonce
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES config/completion/onlyonce.fish
        DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(FILES config/completion/_onlyonce
        DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)

# The release is part of the version: an upgrade of Debian upgrades the package, too.
set(debian "")
if(EXISTS /etc/os-release)
  file(STRINGS /etc/os-release debian REGEX "^ID=debian$")
  file(STRINGS /etc/os-release release REGEX "^VERSION_ID=")
  string(REGEX REPLACE "[^0-9]" "" release "${release}")
endif()
if(NOT debian)
  return()
endif()
set(package_release "1+deb${release}")

set(control_files conffiles postinst prerm postrm)
# Debian 12 has not yet moved what is in /lib, and a package may not do that either.
set(unit_folder usr/lib/systemd/system)
if(release LESS 13)
  set(unit_folder lib/systemd/system)
endif()

# ---- What a package says of itself ----

set(made ${PROJECT_BINARY_DIR}/debian)
string(TIMESTAMP today "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(WRITE ${made}/changelog.Debian
"onlyonce (${PROJECT_VERSION}-${package_release}) unstable; urgency=medium

  * Built from the sources of this version; changelog.gz tells what has changed.

 -- ${ONLYONCE_MAINTAINER}  ${today}
")
# The licence, in the form that Debian's tools read: each line indented, a dot for an empty one.
file(READ LICENSE license)
string(REGEX REPLACE "^.*authors\n\n|\n+$" "" license "${license}")
string(REPLACE "\n\n" "\n.\n" license "${license}")
string(REPLACE "\n" "\n " license " ${license}")
file(WRITE ${made}/copyright
"Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: onlyonce

Files: *
Copyright: 2026 The onlyonce authors
License: MIT

License: MIT
${license}
")

# ---- What only a package has ----

install(FILES config/systemd/onlyonce.service DESTINATION /${unit_folder}
        COMPONENT debian EXCLUDE_FROM_ALL)
install(DIRECTORY DESTINATION /etc/onlyonce DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE
        OWNER_EXECUTE GROUP_READ GROUP_EXECUTE COMPONENT debian EXCLUDE_FROM_ALL)
install(FILES config/debian/onlyonce.yaml DESTINATION /etc/onlyonce
        PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ COMPONENT debian EXCLUDE_FROM_ALL)
file(GLOB documents docs/*.md docs/*.yaml)
install(FILES ${documents} ${made}/copyright ${made}/changelog.Debian
        DESTINATION /usr/share/doc/onlyonce COMPONENT debian EXCLUDE_FROM_ALL)
install(FILES CHANGELOG.md RENAME changelog
        DESTINATION /usr/share/doc/onlyonce COMPONENT debian EXCLUDE_FROM_ALL)
install(FILES config/debian/lintian-overrides RENAME onlyonce
        DESTINATION /usr/share/lintian/overrides COMPONENT debian EXCLUDE_FROM_ALL)
# After all else was installed: manual pages and changelogs are compressed in a package.
install(CODE [[
  file(GLOB texts "$ENV{DESTDIR}/usr/share/man/man*/*.[1-8]"
       "$ENV{DESTDIR}/usr/share/doc/onlyonce/changelog" "$ENV{DESTDIR}/usr/share/doc/onlyonce/changelog.Debian")
  foreach(text ${texts})
    execute_process(COMMAND gzip -9nf ${text} RESULT_VARIABLE code)
    if(code)
      message(FATAL_ERROR "gzip cannot compress ${text}")
    endif()
  endforeach()
]] COMPONENT debian EXCLUDE_FROM_ALL)

# ---- The package ----

set(CPACK_GENERATOR DEB)
set(CPACK_INSTALL_CMAKE_PROJECTS
    "${PROJECT_BINARY_DIR};onlyonce;Unspecified;/;${PROJECT_BINARY_DIR};onlyonce;debian;/")
set(CPACK_SET_DESTDIR ON) # else what is for /etc would go into that of this machine
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ
    GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_PACKAGE_NAME onlyonce)
set(CPACK_PACKAGE_CONTACT "${ONLYONCE_MAINTAINER}")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE ${package_release})
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_DEPENDS adduser)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "rabbitmq-server, redis-server | valkey-server, postgresql")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "lets each RabbitMQ message through once")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
"onlyonce consumes from a RabbitMQ queue, works out each message's key (its
id, a header, a field of its JSON, a hash of its body), claims the key in
Redis, PostgreSQL or an SQLite file, publishes the first message of each key to
the work queue, and drops the rest.

A key stays pending until the broker has confirmed the copy, so that a crash at
any moment, of the relay, the broker or the store, loses no message.")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
list(TRANSFORM control_files PREPEND ${PROJECT_SOURCE_DIR}/config/debian/)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${control_files})
include(CPack)
