# Debian packages: packaging/debian has what debhelper needs, packaging/deb copies the tree and builds there.

DEB_REVISION ?= 1

.PHONY: deb check-deb
deb:
	@tests/deps deb
	@packaging/deb $(OUT) $(DEB_REVISION)

# Installs, upgrades and purges the packages in a Debian of its own (root, debootstrap, network).
check-deb:
	@tests/deps check-deb
	@packaging/check-deb $(OUT)

#?
#? make deb           Debian packages, into build/deb; DEB_REVISION (1) is the last part of their version
#? make check-deb     the packages installed, upgraded and purged in a Debian of its own, under systemd where it boots
