package tensor

import (
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	handlepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/resource_handle_go_proto"
	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	shapepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_shape_go_proto"
	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"google.golang.org/protobuf/encoding/protowire"
)

// limitProcess limits the process, for one test, to bytes more than it already holds.
func limitProcess(t testing.TB, bytes int64) {
	t.Helper()
	before := Process.Limit()
	runtime.GC()
	Process.measure()
	Process.SetLimit(Process.Held() + bytes)
	t.Cleanup(func() { Process.SetLimit(before) })
}

func wantExhausted(t *testing.T, err error, words ...string) {
	t.Helper()
	if status.CodeOf(err) != status.ResourceExhausted {
		t.Fatalf("%v; want RESOURCE_EXHAUSTED", err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}

// repeated returns a message for n values that contains only one.
func repeated(dtype typespb.DataType, n int64) *tensorpb.TensorProto {
	p := &tensorpb.TensorProto{Dtype: dtype, TensorShape: &shapepb.TensorShapeProto{Dim: []*shapepb.TensorShapeProto_Dim{{Size: n}}}}
	switch dtype {
	case typespb.DataType_DT_STRING:
		p.StringVal = [][]byte{[]byte("x")}
	case typespb.DataType_DT_RESOURCE:
		p.ResourceHandleVal = []*handlepb.ResourceHandleProto{{Name: "x"}}
	case typespb.DataType_DT_FLOAT:
		p.FloatVal = []float32{1}
	}
	return p
}

// TestSmallMessagesOfLargeTensors: a few bytes may stand for a tensor of any size. If it does not fit, it is refused before it is
// allocated.
func TestSmallMessagesOfLargeTensors(t *testing.T) {
	limitProcess(t, 64<<20)
	pool := NewPool("test", 0)
	for _, dtype := range []typespb.DataType{typespb.DataType_DT_STRING, typespb.DataType_DT_RESOURCE, typespb.DataType_DT_VARIANT, typespb.DataType_DT_FLOAT} {
		for _, n := range []int64{1 << 25, 1 << 31, 1 << 36, 1 << 50, 1 << 62} {
			begun := time.Now()
			_, err := FromTensorProto(repeated(dtype, n), pool)
			wantExhausted(t, err, "OOM when allocating tensor")
			if took := time.Since(begun); took > time.Second {
				t.Errorf("%v took %v", err, took)
			}
		}
		v, err := FromTensorProto(repeated(dtype, 1<<15), pool)
		if err != nil {
			t.Fatal(err)
		}
		v.Release()
	}
	if n := pool.Stats().InUse; n != 0 {
		t.Errorf("%d bytes are in use", n)
	}
}

// TestPoolsShareTheProcess: memory in use by one pool is not available to another, but idle memory is.
func TestPoolsShareTheProcess(t *testing.T) {
	limitProcess(t, 64<<20)
	one, other := NewPool("one", 0), NewPool("other", 0)
	v, err := New(one, Float32, Shape{12 << 20})
	if err != nil {
		t.Fatal(err)
	}
	_, err = New(other, Uint8, Shape{40 << 20})
	wantExhausted(t, err, "allocator other", "--process-memory", "in use")
	if _, err := New(other, String, Shape{4 << 20}); err == nil {
		t.Error("strings took memory that is in use")
	}
	v.Release() // it is idle now
	w, err := New(other, Uint8, Shape{40 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if idle := one.Stats().Idle; idle != 0 {
		t.Errorf("%d bytes are idle still", idle)
	}
	w.Release()
}

// TestPoolGivesBack: a trimmed pool holds nothing of the process's account, nor does an unreachable one.
func TestPoolGivesBack(t *testing.T) {
	a := &Account{}
	pool := newPool(a, "test", 0)
	v, err := New(pool, Uint8, Shape{1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if a.Held() < 1<<20 {
		t.Errorf("the account knows of %d bytes", a.Held())
	}
	v.Release()
	pool.Trim()
	if pool.Trim(); a.Held() != 0 {
		t.Errorf("%d bytes are held by nobody", a.Held())
	}
}

// TestQuota: a quota counts the live memory of all kinds taken under it, and the pool below counts it too.
func TestQuota(t *testing.T) {
	pool, quota := NewPool("test", 0), NewQuota(1<<20, "step", "--step-memory raises it")
	under := pool.Under(quota)
	a, err := New(under, Uint8, Shape{600 << 10})
	if err != nil {
		t.Fatal(err)
	}
	_, err = New(under, Uint8, Shape{600 << 10})
	wantExhausted(t, err, "the step may hold 1048576 bytes", "--step-memory raises it")
	_, err = New(under, String, Shape{40 << 10})
	wantExhausted(t, err)
	wantExhausted(t, under.Reserve(1<<20))
	text, err := New(under, String, nil)
	if err != nil {
		t.Fatal(err)
	}
	text.Strings()[0] = strings.Repeat("x", 1<<20)
	wantExhausted(t, text.CountStrings(under))
	text.Strings()[0] = strings.Repeat("x", 100<<10)
	if err := text.CountStrings(under); err != nil {
		t.Fatal(err)
	}
	if n := pool.Stats().InUse; n != quota.InUse() || n < 700<<10 {
		t.Errorf("the pool has %d bytes in use, the quota %d", n, quota.InUse())
	}
	again := text.Reshaped(Shape{1})
	text.Release()
	if err := again.CountStrings(under); err != nil { // they are already counted
		t.Fatal(err)
	}
	again.Release()
	a.Release()
	if pool.Stats().InUse != 0 || quota.InUse() != 0 {
		t.Errorf("the pool has %d bytes in use, the quota %d", pool.Stats().InUse, quota.InUse())
	}
	if _, err := New(under, Uint8, Shape{600 << 10}); err != nil {
		t.Error(err)
	}
}

// TestProcessCountsTheHeap: memory outside of all pools counts once it was measured. Nothing, not even a scalar, is then allocated until
// it is released.
func TestProcessCountsTheHeap(t *testing.T) {
	limitProcess(t, 32<<20)
	pool := NewPool("test", 0)
	foreign := make([]byte, 256<<20) // more than dead pools of other tests may still account for
	runtime.GC()
	Process.measure()
	Process.collected.Store(time.Now().UnixNano()) // no collection now: it would free what other tests left
	_, err := New(pool, Float32, nil)
	wantExhausted(t, err, "--process-memory")
	runtime.KeepAlive(foreign)
	Process.collected.Store(0)
	v, err := New(pool, Float32, nil)
	if err != nil {
		t.Fatal(err)
	}
	v.Release()
}

// TestUnmarshalLimit: a message that grows when decoded is checked against the process's memory first.
func TestUnmarshalLimit(t *testing.T) {
	limitProcess(t, 32<<20)
	var wire []byte
	for range 1 << 20 {
		wire = protowire.AppendTag(wire, 1, protowire.BytesType)
		wire = protowire.AppendBytes(wire, nil)
	}
	wantExhausted(t, Unmarshal(wire, &graphpb.GraphDef{}), "tensorflow.GraphDef of 2097152 bytes")
	if err := Unmarshal(wire[:1<<16], &graphpb.GraphDef{}); err != nil {
		t.Error(err)
	}
}

// TestRefusalsRefuseNobodyElse: a refused request, however large, does not cause others to be refused.
func TestRefusalsRefuseNobodyElse(t *testing.T) {
	a := &Account{}
	a.SetLimit(64 << 20)
	pools := []*Pool{newPool(a, "one", 32<<20), newPool(a, "other", 0)}
	var all sync.WaitGroup
	stop := make(chan struct{})
	for _, p := range pools {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if b, err := p.Get(1 << 40); err == nil {
					b.Release()
					t.Error("a TiB was given")
				}
			}
		})
	}
	for i := range 20_000 {
		b, err := pools[i%2].Get(100_000)
		if err != nil {
			t.Error(err)
			break
		}
		b.Release()
	}
	close(stop)
	all.Wait()
}

// TestPoolsThatAreGone: an account forgets unreachable pools. That this takes linear time is tested in package live.
func TestPoolsThatAreGone(t *testing.T) {
	a := &Account{}
	stays := newPool(a, "stays", 0)
	const many = 1000
	for range many {
		newPool(a, "goes", 0)
	}
	runtime.GC()
	all := a.pools.All()
	if len(all) > many/10 {
		t.Errorf("%d pools are kept", len(all))
	}
	if !slices.Contains(all, stays) {
		t.Error("the pool that is used is forgotten")
	}
}
