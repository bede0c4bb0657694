package troupe

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"google.golang.org/protobuf/proto"
)

// Runner runs steps: a Session of this package or of remote/client.
type Runner interface {
	// Run feeds tensors by name, runs targets, and returns the fetched tensors, which are the caller's to release.
	Run(ctx context.Context, feeds map[string]*tensor.Tensor, fetches, targets []string) ([]*tensor.Tensor, error)
}

// Model is a SavedModel as TensorFlow exports it: a graph, the values of its variables, and its signatures.
type Model struct {
	dir        string
	meta       *corepb.MetaGraphDef
	signatures map[string]*Signature
}

// Signature is a function that a model offers, such as serving_default.
type Signature struct {
	// Method is the kind of function, such as tensorflow/serving/predict.
	Method string
	// Inputs and Outputs are the tensors of the graph for its arguments and results.
	Inputs, Outputs map[string]SignatureTensor
}

// SignatureTensor is an argument or a result of a Signature.
type SignatureTensor struct {
	// Name is the tensor's name in the graph.
	Name  string
	DType tensor.DType
	Shape shape.Shape
}

// Names of TensorFlow's format for which the protobuf packages have no constants.
const (
	modelFile      = "saved_model.pb"
	initSignature  = "__saved_model_init_op"
	mainCollection = "saved_model_main_op"
	oldCollection  = "legacy_init_op"
)

// LoadModel reads a SavedModel from its directory: the graph that has all the tags, or the tag "serve" if none are given.
// Open a session over its Graph, Restore the variables there, then Run its signatures:
//
//	model, err := troupe.LoadModel("/models/digits/1")
//	session, err := server.NewSession(ctx, model.Graph(), nil)
//	err = model.Restore(ctx, session)
//	out, err := model.Run(ctx, session, "serving_default", map[string]*tensor.Tensor{"x": x})
//
// The error is NOT_FOUND if there is no such model or no graph with these tags, and DATA_LOSS if the file is not a
// model.
func LoadModel(dir string, tags ...string) (*Model, error) {
	if len(tags) == 0 {
		tags = []string{"serve"}
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(filepath.Join(dir, modelFile))
	if err != nil {
		return nil, status.Errorf(status.NotFound, "There is no SavedModel in %s: %w", dir, err)
	}
	var saved corepb.SavedModel
	if err := proto.Unmarshal(content, &saved); err != nil {
		return nil, status.Errorf(status.DataLoss, "%s is not a SavedModel: %w", filepath.Join(dir, modelFile), err)
	}
	var have []string
	for _, meta := range saved.MetaGraphs {
		of := meta.GetMetaInfoDef().GetTags()
		if !containsAll(of, tags) {
			have = append(have, fmt.Sprint(of))
			continue
		}
		m := &Model{dir: dir, meta: meta, signatures: map[string]*Signature{}}
		for name, def := range meta.GetSignatureDef() {
			if name == initSignature {
				continue
			}
			if m.signatures[name], err = signatureOf(def); err != nil {
				return nil, status.Unimplementedf("Signature %s of %s: %w", name, dir, err)
			}
		}
		return m, nil
	}
	return nil, status.Errorf(status.NotFound, "%s has no graph with the tags %v; it has %s", dir, tags, strings.Join(have, ", "))
}

func containsAll(have, want []string) bool {
	return !slices.ContainsFunc(want, func(w string) bool { return !slices.Contains(have, w) })
}

func signatureOf(def *corepb.SignatureDef) (s *Signature, err error) {
	s = &Signature{Method: def.GetMethodName()}
	if s.Inputs, err = tensorsOf(def.GetInputs()); err != nil {
		return nil, err
	}
	s.Outputs, err = tensorsOf(def.GetOutputs())
	return s, err
}

func tensorsOf(infos map[string]*corepb.TensorInfo) (map[string]SignatureTensor, error) {
	out := make(map[string]SignatureTensor, len(infos))
	for key, info := range infos {
		if info.GetName() == "" {
			return nil, status.Unimplementedf("%s is a composite (%T), not a tensor", key, info.GetEncoding())
		}
		s := shape.Unknown()
		if dims, known := tensor.ShapeFromProto(info.GetTensorShape()); known {
			s = shape.Of(dims...)
		}
		out[key] = SignatureTensor{info.GetName(), tensor.FromProto(info.GetDtype()), s}
	}
	return out, nil
}

// Graph returns the model's graph, for a session. It is shared and must not be changed.
func (m *Model) Graph() *graphpb.GraphDef { return m.meta.GetGraphDef() }

// Signatures returns the model's signatures by name. They must not be changed.
func (m *Model) Signatures() map[string]*Signature { return m.signatures }

// Restore sets the variables to their saved values, in a session over the model's graph, and initializes its tables.
// The tasks that hold the variables read the files, so the directory must have the same path on them.
func (m *Model) Restore(ctx context.Context, session Runner) error {
	feeds := map[string]*tensor.Tensor{}
	defer func() {
		for _, t := range feeds {
			t.Release()
		}
	}()
	path := func(name string, parts ...string) error {
		t, err := tensor.FromStrings(nil, []string{filepath.Join(append([]string{m.dir}, parts...)...)})
		if err == nil {
			feeds[name] = t
		}
		return err
	}
	for _, a := range m.meta.GetAssetFileDef() {
		if err := path(a.GetTensorInfo().GetName(), "assets", a.GetFilename()); err != nil {
			return err
		}
	}
	if saver := m.meta.GetSaverDef(); saver != nil && m.hasVariables() {
		if err := path(saver.GetFilenameTensorName(), "variables", "variables"); err != nil {
			return err
		}
		if _, err := session.Run(ctx, feeds, nil, []string{saver.GetRestoreOpName()}); err != nil {
			return err
		}
		feeds[saver.GetFilenameTensorName()].Release()
		delete(feeds, saver.GetFilenameTensorName())
	}
	if init := m.initializer(); init != "" {
		_, err := session.Run(ctx, feeds, nil, []string{init})
		return err
	}
	return nil
}

// hasVariables reports whether values were saved: a model without variables still names a saver.
func (m *Model) hasVariables() bool {
	_, err := os.Stat(filepath.Join(m.dir, "variables", "variables.index"))
	return err == nil
}

// initializer returns the name of the operation to run once, or "" if there is none. Newer models have a signature for it, older ones a
// collection.
func (m *Model) initializer() string {
	for _, out := range m.meta.GetSignatureDef()[initSignature].GetOutputs() {
		return strings.TrimSuffix(out.GetName(), ":0")
	}
	for _, key := range []string{mainCollection, oldCollection} {
		if nodes := m.meta.GetCollectionDef()[key].GetNodeList().GetValue(); len(nodes) > 0 {
			return nodes[0]
		}
	}
	return ""
}

// Run calls a signature in a session over the model's graph. inputs has a tensor for each input, which the caller
// keeps. The result has one for each output, which the caller must release. If an input is missing, unknown, or of
// another type or shape, the error is INVALID_ARGUMENT and names it.
func (m *Model) Run(ctx context.Context, session Runner, signature string, inputs map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	s, ok := m.signatures[signature]
	if !ok {
		return nil, status.Errorf(status.NotFound, "The model of %s has no signature %q; it has %v", m.dir, signature, slices.Sorted(maps.Keys(m.signatures)))
	}
	feeds := make(map[string]*tensor.Tensor, len(inputs))
	for key, want := range s.Inputs {
		t := inputs[key]
		if t == nil {
			return nil, status.InvalidArgumentf("Signature %s lacks its input %q, a %v of shape %v", signature, key, want.DType, want.Shape)
		}
		if _, err := want.Shape.Merge(shape.Of(t.Shape()...)); err != nil || t.DType() != want.DType {
			return nil, status.InvalidArgumentf("Input %q of signature %s is a %v of shape %v, not a %v of shape %v",
				key, signature, want.DType, want.Shape, t.DType(), t.Shape())
		}
		feeds[want.Name] = t
	}
	for key := range inputs {
		if _, ok := s.Inputs[key]; !ok {
			return nil, status.InvalidArgumentf("Signature %s has no input %q; it has %v", signature, key, slices.Sorted(maps.Keys(s.Inputs)))
		}
	}
	keys := slices.Sorted(maps.Keys(s.Outputs))
	fetches := make([]string, len(keys))
	for i, key := range keys {
		fetches[i] = s.Outputs[key].Name
	}
	got, err := session.Run(ctx, feeds, fetches, nil)
	if err != nil {
		return nil, err
	}
	out := make(map[string]*tensor.Tensor, len(keys))
	for i, key := range keys {
		out[key] = got[i]
	}
	return out, nil
}
