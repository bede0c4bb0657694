package troupe

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Saver saves variables in checkpoints and restores them. Checkpoints are files in TensorFlow's format: tf.train.Saver and Saver can read
// each other's. They are read and written by the task on which the Saver's operations run, which is that of the scope's device.
type Saver struct {
	path          op.Output
	save, restore *op.Operation
}

// NewSaver adds to a graph the operations that save and restore variables: the given ones, or all that the graph has so
// far. Variables are saved under their names.
func NewSaver(s *op.Scope, variables ...*op.Variable) *Saver {
	if len(variables) == 0 {
		variables = s.Variables()
	}
	s = s.SubScope("save")
	v := &Saver{path: op.Placeholder(s.WithName("path"), tensor.String, attr.Shape(shape.Scalar()))}
	if len(variables) == 0 {
		s.Fail(status.InvalidArgumentf("A Saver has no variables to save"))
		return v
	}
	var names []string
	var values []op.Output
	var types []tensor.DType
	for _, variable := range variables {
		names = append(names, variable.Name())
		values = append(values, variable.Read(s))
		types = append(types, variable.DType())
	}
	slots, whole := op.Const(s.WithName("names"), names), op.Const(s.WithName("slices"), make([]string, len(names)))
	v.save = op.SaveV2(s, v.path, slots, whole, values)
	var assigned []*op.Operation
	for i, value := range op.RestoreV2(s, v.path, slots, whole, types) {
		assigned = append(assigned, variables[i].Assign(s, value))
	}
	v.restore = op.Group(s.WithName("restore_all"), assigned...)
	return v
}

// Save writes the variables' values to a checkpoint: files whose names begin with prefix. A checkpoint of that name
// is replaced once the new one is complete.
func (v *Saver) Save(ctx context.Context, session *Session, prefix string) error {
	_, err := session.Eval(ctx, Feeds{v.path: prefix}, v.save)
	return err
}

// Restore sets the variables to the values of a checkpoint. If a variable is not in it, the error is NOT_FOUND and
// names the variable.
func (v *Saver) Restore(ctx context.Context, session *Session, prefix string) error {
	_, err := session.Eval(ctx, Feeds{v.path: prefix}, v.restore)
	return err
}

// stateFile lists a directory's checkpoints for TensorFlow's tools, in protobuf's text format.
const stateFile = "checkpoint"

// Checkpoints manages the checkpoints that a Saver writes at certain steps. Prefix is their directory and the first part
// of their names: with /data/run1/model, the checkpoint of step 100 is /data/run1/model-100. The program must be able to
// reach the files too.
type Checkpoints struct {
	Prefix string
	// Keep is the number of latest checkpoints to keep; 0 means 5.
	Keep int
}

// Latest returns the prefix and the step of the latest checkpoint; ok is false if there is none.
func (c Checkpoints) Latest() (prefix string, step int64, ok bool, err error) {
	steps, err := c.steps()
	if err != nil || len(steps) == 0 {
		return "", 0, false, err
	}
	step = steps[len(steps)-1]
	return c.at(step), step, true, nil
}

func (c Checkpoints) at(step int64) string { return fmt.Sprintf("%s-%d", c.Prefix, step) }

// steps returns the steps that have a complete checkpoint, in order. A checkpoint's index is written last.
func (c Checkpoints) steps() ([]int64, error) {
	dir, base := filepath.Split(c.Prefix)
	entries, err := os.ReadDir(filepath.Clean(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var steps []int64
	for _, e := range entries {
		number, is := strings.CutPrefix(e.Name(), base+"-")
		number, index := strings.CutSuffix(number, ".index")
		if step, err := strconv.ParseInt(number, 10, 64); is && index && err == nil {
			steps = append(steps, step)
		}
	}
	slices.Sort(steps)
	return steps, nil
}

// Save saves the checkpoint of a step, deletes the oldest beyond Keep, and lists the rest for TensorFlow's tools.
func (c Checkpoints) Save(ctx context.Context, session *Session, saver *Saver, step int64) error {
	if err := os.MkdirAll(filepath.Dir(c.Prefix), 0o777); err != nil {
		return err
	}
	if err := saver.Save(ctx, session, c.at(step)); err != nil {
		return err
	}
	steps, err := c.steps()
	if err != nil {
		return err
	}
	keep := c.Keep
	if keep == 0 {
		keep = 5
	}
	old := steps[:max(0, len(steps)-keep)]
	if err := c.list(steps[len(old):]); err != nil {
		return err
	}
	for _, step := range old {
		files, err := filepath.Glob(escapeGlob(c.at(step)) + ".*")
		if err != nil {
			return err
		}
		for _, f := range files {
			if err := os.Remove(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// list writes the state file atomically.
func (c Checkpoints) list(steps []int64) error {
	base := filepath.Base(c.Prefix)
	var b strings.Builder
	fmt.Fprintf(&b, "model_checkpoint_path: %q\n", fmt.Sprintf("%s-%d", base, steps[len(steps)-1]))
	for _, step := range steps {
		fmt.Fprintf(&b, "all_model_checkpoint_paths: %q\n", fmt.Sprintf("%s-%d", base, step))
	}
	path := filepath.Join(filepath.Dir(c.Prefix), stateFile)
	if err := os.WriteFile(path+".tmp", []byte(b.String()), 0o666); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}

// escapeGlob returns a pattern that matches only path.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}
