package deploy

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// repository is where releases push the image, and where all manifests pull it.
const repository = "ghcr.io/troupe-run/troupe"

// image returns the name of the image of the next release: the version is the one of the Python package.
func image(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(root + "python/pyproject.toml")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^version = "(.+)"$`).FindSubmatch(text)
	if version == nil {
		t.Fatal("python/pyproject.toml has no version")
	}
	return repository + ":" + string(version[1])
}

// anImage matches the name of an image called troupe in any registry, with its tag, but not a target such as grpc://troupe:2222.
var anImage = regexp.MustCompile("[^\\s`\"'=]*[^\\s`\"'=/]/troupe:(?:\\{\\{[^}]*\\}\\}|[^\\s`\"']*[\\w])")

// TestImageHasOneName checks that whatever names the image with a tag (the build, the manifests, the documents) uses the same name. What
// kustomize makes of the base is checked with the pods.
func TestImageHasOneName(t *testing.T) {
	want := image(t)
	found := map[string]int{}
	look := func(path, want string) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range anImage.FindAllString(string(text), -1) {
			found[strings.TrimPrefix(filepath.ToSlash(path), root)]++
			if name != want {
				t.Errorf("%s names the image %s, not %s", path, name, want)
			}
		}
	}
	look(root+".goreleaser.yaml", repository+":{{ .Version }}")
	look(root+"README.md", want)
	for _, folder := range []string{"deploy", "docs"} {
		if err := filepath.WalkDir(root+folder, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				look(path, want)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{".goreleaser.yaml", "deploy/compose/compose.yaml", "deploy/kubeflow/tfjob.yaml", "docs/releases.md"} {
		if found[path] == 0 {
			t.Errorf("%s does not name the image", path)
		}
	}
}
