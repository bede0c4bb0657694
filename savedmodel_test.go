package troupe

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// flowers is a model saved by TensorFlow 2, with variables and a table.
const flowers = "examples/serving/model"

func TestModel(t *testing.T) {
	model, err := LoadModel(flowers)
	if err != nil {
		t.Fatal(err)
	}
	s := model.Signatures()["serving_default"]
	if s.Inputs["sizes"].Shape.String() != "[?,4]" || s.Outputs["species"].DType != tensor.String {
		t.Errorf("the signature is %+v", s)
	}
	session, err := localServer(t).NewSession(t.Context(), model.Graph(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := model.Restore(t.Context(), session); err != nil {
		t.Fatal(err)
	}
	sizes, err := tensor.From([][]float32{{5.1, 3.5, 1.4, 0.2}, {5.9, 2.8, 4.3, 1.3}})
	if err != nil {
		t.Fatal(err)
	}
	defer sizes.Release()
	out, err := model.Run(t.Context(), session, "serving_default", map[string]*tensor.Tensor{"sizes": sizes})
	if err != nil {
		t.Fatal(err)
	}
	if got := out["species"].Strings(); !slices.Equal(got, []string{"setosa", "versicolor"}) {
		t.Errorf("species %v", got)
	}
	for _, o := range out {
		o.Release()
	}

	refused := func(signature string, inputs map[string]*tensor.Tensor, code status.Code, want string) {
		t.Helper()
		_, err := model.Run(t.Context(), session, signature, inputs)
		if status.CodeOf(err) != code || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	wrong := tensor.FromScalar(int32(1))
	defer wrong.Release()
	refused("predict", nil, status.NotFound, "it has [serving_default]")
	refused("serving_default", nil, status.InvalidArgument, `lacks its input "sizes"`)
	refused("serving_default", map[string]*tensor.Tensor{"sizes": wrong}, status.InvalidArgument, "not a int32 of shape []")
	refused("serving_default", map[string]*tensor.Tensor{"sizes": sizes, "colour": wrong}, status.InvalidArgument, `no input "colour"`)
}

func TestModelsThatAreNone(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, modelFile), []byte("a model"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dir  string
		tags []string
		code status.Code
		want string
	}{
		{t.TempDir(), nil, status.NotFound, "no SavedModel in"},
		{dir, nil, status.DataLoss, "is not a SavedModel"},
		{flowers, []string{"serve", "gpu"}, status.NotFound, "no graph with the tags [serve gpu]; it has [serve]"},
	} {
		if _, err := LoadModel(c.dir, c.tags...); status.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %s", err, c.want)
		}
	}
}
