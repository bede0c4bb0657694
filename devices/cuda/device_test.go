//go:build cuda && cgo && linux

package cuda

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/devices/gpu"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// openDevice makes a device on a card. The device is closed when the test ends.
func openDevice(t *testing.T, card gpu.Card, name string, log *slog.Logger) *gpu.Device {
	t.Helper()
	d, err := gpu.Open(gpu.Options{Card: card, Name: name, Job: "test", Host: tensor.NewPool("test", 0), MemoryLimit: 64 << 20, AllowGrowth: true, Log: log})
	must(t, err)
	t.Cleanup(func() {
		if used := d.Stats().InUse; used != 0 {
			t.Errorf("%d bytes of %s were not released", used, name)
		}
		must(t, d.Close())
	})
	return d
}

// negate computes on a device, and returns the step's error.
func negate(t *testing.T, d *gpu.Device, n int) error {
	t.Helper()
	step := &kernels.Step{ID: 1, Cancellation: &kernels.Cancellation{}}
	ctx := &kernels.Context{Node: &graph.Node{Name: "negate", Op: "Neg"}, Step: step}
	values := make([]float32, n)
	for i := range values {
		values[i] = float32(i)
	}
	host, err := tensor.FromSlice(tensor.Float32, tensor.Shape{int64(n)}, values)
	must(t, err)
	defer host.Release()
	x, err := d.Upload(ctx, host)
	must(t, err)
	defer x.Release()
	d.Launch(ctx, kernels.Launch{Function: "neg_f32", Grid: [3]int{4}, Block: [3]int{256}, Args: []uint64{x.Address(), x.Address(), uint64(n)}})
	got := make(chan error, 1)
	d.Download(ctx, x, func(back *tensor.Tensor, err error) {
		if err == nil {
			defer back.Release()
			if i := slices.IndexFunc(tensor.Of[float32](back), func(v float32) bool { return v > 0 }); i >= 0 || back.Len() != n {
				err = status.Errorf(status.DataLoss, "element %d is not negative", i)
			}
		}
		got <- err
	})
	settled := make(chan error, 1)
	d.Settle(step, func(err error) { settled <- err })
	return status.Worse(<-settled, <-got)
}

// TestDevice runs a device on the driver: small and large uploads, launches, downloads, and copies between cards.
func TestDevice(t *testing.T) {
	useDriver(t)
	cards, err := Driver{}.Cards()
	must(t, err)
	a := openDevice(t, cards[0], "a", nil)
	for _, n := range []int{1, 1000, 1<<20 + 1} {
		must(t, negate(t, a, n))
	}
	b := openDevice(t, cards[len(cards)-1], "b", nil)
	must(t, negate(t, b, 1000))
	host, err := tensor.FromSlice(tensor.Float32, tensor.Shape{3}, []float32{1, 2, 3})
	must(t, err)
	defer host.Release()
	x, err := a.Upload(nil, host)
	must(t, err)
	defer x.Release()
	y, err := b.Fetch(nil, x)
	must(t, err)
	defer y.Release()
	got := make(chan []float32, 1)
	b.Download(nil, y, func(back *tensor.Tensor, err error) {
		if err != nil {
			t.Error(err)
			got <- nil
			return
		}
		got <- slices.Clone(tensor.Of[float32](back))
		back.Release()
	})
	if v := <-got; !slices.Equal(v, []float32{1, 2, 3}) {
		t.Errorf("got %v", v)
	}
}

// TestDeviceIsLost makes a kernel fault: the step must fail and name the node, and the devices on the card must serve again.
func TestDeviceIsLost(t *testing.T) {
	useDriver(t)
	cards, err := Driver{}.Cards()
	must(t, err)
	if !strings.Contains(cards[0].Info().Name, "Fake") {
		t.Skip("only the fake driver faults when it is told to")
	}
	anew := make(chan string, 10)
	log := slog.New(slog.NewTextHandler(started(anew), nil))
	a, b := openDevice(t, cards[0], "a", log), openDevice(t, cards[0], "b", log)
	must(t, negate(t, a, 1000))
	must(t, negate(t, b, 1000))
	t.Setenv("FAKE_CUDA_FAIL", "fault:1")
	err = negate(t, a, 1000)
	t.Setenv("FAKE_CUDA_FAIL", "")
	if status.CodeOf(err) != status.Unavailable || !strings.Contains(err.Error(), "{{node negate}}") || !strings.Contains(err.Error(), "ILLEGAL_ADDRESS") {
		t.Fatalf("got %v", err)
	}
	<-anew
	<-anew
	must(t, negate(t, a, 1000))
	must(t, negate(t, b, 1000))
}

// started is a log that reports restarted devices.
type started chan string

func (s started) Write(line []byte) (int, error) {
	if strings.Contains(string(line), "started anew: its variables") {
		s <- string(line)
	}
	return len(line), nil
}

// TestProducts multiplies with the library of the driver: transposed or not, with one matrix for a whole batch or one each.
func TestProducts(t *testing.T) {
	useDriver(t)
	cards, err := Driver{}.Cards()
	must(t, err)
	d := openDevice(t, cards[0], "a", nil)
	const m, n, k, batch = 3, 5, 4, 2
	up := func(from, count int) *tensor.Tensor {
		host, err := tensor.New(tensor.Host, tensor.Float32, tensor.Shape{int64(count)})
		must(t, err)
		defer host.Release()
		for i := range tensor.Of[float32](host) {
			tensor.Of[float32](host)[i] = float32((i*7+from)%11 - 5)
		}
		x, err := d.Upload(nil, host)
		must(t, err)
		return x
	}
	a, b, c := up(1, batch*m*k), up(2, k*n), up(3, batch*m*n)
	defer a.Release()
	defer b.Release()
	defer c.Release()
	for i := range 4 {
		transA, transB := i&1 != 0, i&2 != 0
		if !d.Gemm(nil, kernels.Gemm{DType: tensor.Float32, TransA: transA, TransB: transB, M: m, N: n, K: k, Batch: batch, Alpha: 1, A: a, B: b, C: c, StrideA: m * k, StrideC: m * n}) {
			t.Skip("there is no cuBLAS")
		}
		got := make(chan *tensor.Tensor, 1)
		d.Download(nil, c, func(host *tensor.Tensor, err error) {
			if err != nil {
				t.Error(err)
			}
			got <- host
		})
		host := <-got
		if host == nil {
			return
		}
		at := func(from, i int) float32 { return float32((i*7+from)%11 - 5) }
		for j := range batch * m * n {
			item, row, column := j/(m*n), j/n%m, j%n
			sum := float32(0)
			for l := range k {
				left, right := row*k+l, l*n+column
				if transA {
					left = l*m + row
				}
				if transB {
					right = column*k + l
				}
				sum += at(1, item*m*k+left) * at(2, right)
			}
			if v := tensor.Of[float32](host)[j]; v != sum {
				t.Errorf("transposed %v and %v: element %d is %v, not %v", transA, transB, j, v, sum)
				break
			}
		}
		host.Release()
	}
}
