package iterator

import (
	modelpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/model_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
	"google.golang.org/protobuf/proto"
)

// modelOf outputs the stages of an iterator as a serialized ModelProto of TensorFlow's autotuning. Its times are how long readers have
// waited; it has none for functions.
func modelOf(ctx *kernels.Context) error {
	r, err := iteratorAt(ctx, 0)
	if err != nil {
		return err
	}
	stages := r.Stages()
	if stages == nil {
		return status.Errorf(status.FailedPrecondition, "GetModelProto() failed because the iterator has not been initialized. Ensure that you have run the initializer operation for this iterator before getting the next element.")
	}
	m := &modelpb.ModelProto{Nodes: map[int64]*modelpb.ModelProto_Node{}, Output: 1, IdCounter: int64(len(stages)) + 1}
	for i, s := range stages {
		m.Nodes[int64(i)+1] = modelNode(s, int64(i)+1)
	}
	for i, s := range stages {
		if s.Parent >= 0 {
			p := m.Nodes[int64(s.Parent)+1]
			p.Inputs = append(p.Inputs, int64(i)+1)
		}
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err == nil {
		ctx.SetOutput(0, tensor.FromScalar(string(b)))
	}
	return err
}

func modelNode(s dataset.StageStats, id int64) *modelpb.ModelProto_Node {
	n := &modelpb.ModelProto_Node{
		Id: id, Name: s.Name, Autotune: s.Tuned, BufferedBytes: s.Bytes, BufferedElements: s.Buffered, NumElements: s.Elements,
		NodeClass: modelpb.NodeClass_UNKNOWN_RATIO, InputProcessingTimeSum: float64(s.ConsumerWait.Nanoseconds()), InputProcessingTimeCount: s.Elements,
	}
	add := func(name string, v int64) {
		n.NodeClass = modelpb.NodeClass_ASYNC_UNKNOWN_RATIO
		n.Parameters = append(n.Parameters, &modelpb.ModelProto_Node_Parameter{Name: name, Value: float64(v), StateValue: float64(v), Min: 1, Max: float64(v), Tunable: s.Tuned})
	}
	if s.Parallelism > 0 {
		add("parallelism", s.Parallelism)
	}
	if s.BufferSize > 0 {
		add("buffer_size", s.BufferSize)
	}
	return n
}
