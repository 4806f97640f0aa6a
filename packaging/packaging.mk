# Releases and packages: see CONTRIBUTING.md, Releasing. The same commit, compiler and libraries give the same bytes
# (tests/scenario/rebuilt_*.sh).

DIST := mqkv-$(VERSION)
.PHONY: dist sbom release-sign
dist: sbom
	@git diff --quiet HEAD -- || { echo 'dist: there are changes that are not committed' >&2; exit 1; }
	@git -c tar.umask=0022 -c core.autocrlf=false archive --format=tar --prefix=$(DIST)/ HEAD >$(OUT)/$(DIST).tar
	@env -u GZIP gzip -9n <$(OUT)/$(DIST).tar >$(OUT)/$(DIST).tar.gz
	@rm $(OUT)/$(DIST).tar
	@sha256sum $(OUT)/$(DIST).tar.gz

# What docs/ARTIFACT.md describes: the sources with all rows, the versions of what they need, and that page.
ARTIFACT := mqkv-artifact-$(VERSION)
.PHONY: artifact
artifact:
	@git diff --quiet HEAD -- || { echo 'artifact: there are changes that are not committed' >&2; exit 1; }
	@mkdir -p $(OUT)/artifact
	@tests/deps versions >$(OUT)/artifact/packages
	@cp docs/ARTIFACT.md $(OUT)/artifact/
	@git -c tar.umask=0022 -c core.autocrlf=false archive --format=tar --prefix=$(ARTIFACT)/ \
	  --add-file=$(OUT)/artifact/packages --add-file=$(OUT)/artifact/ARTIFACT.md HEAD | gzip -9n >$(OUT)/$(ARTIFACT).tar.gz
	@sha256sum $(OUT)/$(ARTIFACT).tar.gz

# The bill of materials.
sbom: all
	@packaging/sbom mqkv $(VERSION) $(PROGRAMS) $(SHARED_LIBS) >$(OUT)/$(DIST).spdx.json
	@echo $(OUT)/$(DIST).spdx.json

RELEASE_SIGNERS ?= packaging/release-signers
release-sign:
	@packaging/release-sign '$(KEY)' $(RELEASE_SIGNERS) $(VERSION) $(OUT)

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
#? make dist          a tarball of the committed tree, build/mqkv-VERSION.tar.gz, and its bill of materials
#? make artifact      build/mqkv-artifact-VERSION.tar.gz: sources, raw rows, versions of packages, and docs/ARTIFACT.md
#? make sbom          the bill of materials (SPDX) of what was built: build/mqkv-VERSION.spdx.json
#? make deb           Debian packages, into build/deb; DEB_REVISION (1) is the last part of their version
#? make check-deb     the packages installed, upgraded and purged in a Debian of its own, under systemd where it boots
#? make release-sign  KEY=FILE: what dist and deb made, with signed checksums, into build/release
