package debug

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strings"
	"sync/atomic"
	"time"

	summarypb "github.com/galeone/tensorflow/tensorflow/go/core/framework/summary_go_proto"
	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/files"
	"github.com/troupe-run/troupe/kernels/internal/disk"
	"github.com/troupe-run/troupe/kernels/internal/events"
	"google.golang.org/protobuf/proto"
)

// Watched identifies a watched tensor and the debug op that reports on it.
type Watched struct {
	Device string // the full name
	Node   string
	Slot   int
	Op     string // the debug op, without its attributes
}

// Run describes a run of a session.
type Run struct {
	GlobalStep        int64    `json:"global_step"`         // as counted by the client
	SessionRunIndex   int64    `json:"session_run_index"`   // among the session's watched runs
	ExecutorStepIndex int64    `json:"executor_step_index"` // among the runs with the same feeds, fetches, targets and watches
	InputNames        []string `json:"input_names"`
	OutputNames       []string `json:"output_names"`
	TargetNodes       []string `json:"target_nodes"`
}

// Root returns the folder that a debug URL names. URLs other than file URLs return UNIMPLEMENTED, since a server does not connect to
// addresses that its clients name.
func Root(url string) (string, error) {
	root, ok := strings.CutPrefix(url, "file://")
	if !ok {
		return "", status.Unimplementedf("The debug URL %q is not supported: it must be file:///FOLDER, on the machine of each task", url)
	}
	return root, nil
}

// WriteTensor writes the file for a value that a debug op computed of a watched tensor.
func WriteTensor(fsys files.FS, root string, w Watched, t *tensor.Tensor) error {
	p, err := t.Proto()
	if err != nil {
		return err
	}
	return w.write(fsys, root, p)
}

// WriteUninitialized writes the file of a variable without a value: a type and a shape without content.
func WriteUninitialized(fsys files.FS, root string, w Watched, dtype tensor.DType, shape tensor.Shape) error {
	return w.write(fsys, root, &tensorpb.TensorProto{Dtype: dtype.Proto(), TensorShape: shape.Proto()})
}

func (w *Watched) write(fsys files.FS, root string, content *tensorpb.TensorProto) error {
	// Readers use this to reassemble a tensor that is split into messages. Here each tensor is a single message.
	where := fmt.Sprintf(`{"device":%s,"outputSlot":%d,"numChunks":1,"chunkIndex":0}`, quoted(w.Device), w.Slot)
	summary, err := proto.Marshal(&summarypb.Summary{Value: []*summarypb.Summary_Value{{
		Tag: w.Node, NodeName: fmt.Sprintf("%s:%d:%s", w.Node, w.Slot, w.Op), Value: &summarypb.Summary_Value_Tensor{Tensor: content},
		Metadata: &summarypb.SummaryMetadata{PluginData: &summarypb.SummaryMetadata_PluginData{PluginName: "debugger", Content: []byte(where)}},
	}}})
	if err != nil {
		return status.InvalidArgumentf("The watched tensor %s:%d cannot be written: %v", w.Node, w.Slot, err)
	}
	at := now()
	name := fmt.Sprintf("%s/%s/%s_%d_%s_%d", root, folder(w.Device), w.Node, w.Slot, w.Op, at)
	return files.Write(fsys, name, string(events.Summary(time.UnixMicro(at), 0, summary)))
}

// IdentityOp is the op that writes tensors to files. A client with access to it may also have steps and their graphs written.
const IdentityOp = "DebugIdentity"

// WriteGraph writes the graph that a device runs, a serialized GraphDef. It blocks until the file is written.
func WriteGraph(fsys files.FS, root, device string, def []byte) (err error) {
	at := now()
	hash := fnv.New64a()
	hash.Write(def)
	name := fmt.Sprintf("%s/%s/_tfdbg_graph_hash%d_%d", root, folder(device), hash.Sum64(), at)
	disk.Do(func() { err = files.Write(fsys, name, string(events.Graph(time.UnixMicro(at), 0, def))) })
	return err
}

// WriteRun writes the description of a run before it begins. It blocks until the file is written.
func WriteRun(fsys files.FS, root string, r Run) (err error) {
	at := now()
	text, err := json.Marshal(r)
	if err != nil {
		return status.Internalf("The run cannot be described: %v", err)
	}
	name := fmt.Sprintf("%s/_tfdbg_core_metadata_sessionrun%014d_%d", root, r.SessionRunIndex, at)
	disk.Do(func() { err = files.Write(fsys, name, string(events.Message(time.UnixMicro(at), string(text)))) })
	return err
}

func quoted(s string) string {
	b, _ := json.Marshal(s) // never fails for a string
	return string(b)
}

// folder returns the name of the folder that holds a device's files.
func folder(device string) string {
	return "_tfdbg_device_" + strings.ReplaceAll(strings.ReplaceAll(device, ":", "_"), "/", ",")
}

var last atomic.Int64

// now returns the time in microseconds, different at each call, since file names contain it.
func now() int64 {
	for {
		before, t := last.Load(), time.Now().UnixMicro()
		if t <= before {
			t = before + 1
		}
		if last.CompareAndSwap(before, t) {
			return t
		}
	}
}
