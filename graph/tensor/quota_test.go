package tensor

import "testing"

// fullAccount returns an account whose ordinary memory is all in use, and a pool of it.
func fullAccount(t *testing.T, limit int64) (*Account, *Pool) {
	t.Helper()
	a := &Account{}
	a.limit.Store(limit) // the rest of the process's memory is not counted
	pool := newPool(a, "test", 0)
	if err := pool.Reserve(limit - limit/reservePart); err != nil {
		t.Fatal(err)
	}
	return a, pool
}

func sessionOf(a *Account, p *Pool) (*Quota, *Pool) {
	q := NewQuota(0, "session", "")
	q.Join(a)
	return q, p.Under(q)
}

// TestReserveIsForSmallHolders: if others have taken everything, small holders get their share of the reserve, again and again, and one
// that holds more than its share gets nothing from it.
func TestReserveIsForSmallHolders(t *testing.T) {
	const limit = 256 << 20
	a, pool := fullAccount(t, limit)
	_, small := sessionOf(a, pool)
	_, large := sessionOf(a, pool)
	const share = limit / reservePart / 2
	_, err := New(large, Uint8, Shape{share + 1})
	wantExhausted(t, err)
	_, err = New(pool, Uint8, Shape{1 << 10})
	wantExhausted(t, err)
	for range 100 {
		v, err := New(small, Uint8, Shape{share / 2})
		if err != nil {
			t.Fatal(err)
		}
		if a.lent.Load() < share/2 {
			t.Fatalf("%d bytes are lent", a.lent.Load())
		}
		v.Release()
		_, err = New(large, Uint8, Shape{share + 1}) // nor from what was released
		wantExhausted(t, err)
		_, err = New(pool, Uint8, Shape{share / 2})
		wantExhausted(t, err)
	}
	if n := a.lent.Load(); n != 0 {
		t.Errorf("%d bytes are lent after all", n)
	}
	if n, want := pool.Stats().InUse, int64(limit-limit/reservePart); n != want {
		t.Errorf("%d bytes are in use, want %d", n, want)
	}
}

// TestReserveOutlastsTheHeap: if the live heap exceeds the limit, small holders still get memory.
func TestReserveOutlastsTheHeap(t *testing.T) {
	a := &Account{}
	a.limit.Store(64 << 20)
	a.other.Store(80 << 20)
	a.short.Store(true)
	a.collected.Store(1 << 62) // a collection would find less
	pool := newPool(a, "test", 0)
	_, err := New(pool, Uint8, Shape{1 << 10})
	wantExhausted(t, err)
	_, own := sessionOf(a, pool)
	v, err := New(own, Uint8, Shape{1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	v.Release()
	if err := own.Reserve(1 << 10); err != nil {
		t.Fatal(err)
	}
	if own.Unreserve(1 << 10); a.lent.Load() != 0 {
		t.Errorf("%d bytes are lent", a.lent.Load())
	}
}

// TestClientsQuota: the sessions of a client share the client's quota.
func TestClientsQuota(t *testing.T) {
	a := &Account{}
	client := NewQuota(3<<20, "client 10.0.0.7", "--client-memory raises it")
	shared := newPool(a, "test", 0).Under(client)
	_, one := sessionOf(a, shared)
	_, two := sessionOf(a, shared)
	v, err := New(one, Uint8, Shape{2 << 20})
	if err != nil {
		t.Fatal(err)
	}
	_, err = New(two, Uint8, Shape{2 << 20})
	wantExhausted(t, err, "client 10.0.0.7", "--client-memory")
	v.Release()
	w, err := New(two, Uint8, Shape{2 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if w.Release(); client.InUse() != 0 {
		t.Errorf("the client holds %d bytes", client.InUse())
	}
}

func BenchmarkGetUnderSession(b *testing.B) {
	a := &Account{}
	_, p := sessionOf(a, newPool(a, "bench", 0))
	b.ReportAllocs()
	for b.Loop() {
		v, err := p.Get(1 << 10)
		if err != nil {
			b.Fatal(err)
		}
		v.Release()
	}
}

func BenchmarkGetPlain(b *testing.B) {
	p := newPool(&Account{}, "bench", 0)
	b.ReportAllocs()
	for b.Loop() {
		v, err := p.Get(1 << 10)
		if err != nil {
			b.Fatal(err)
		}
		v.Release()
	}
}

// TestSmallTensorsCount: many tensors hold much memory, however small each is, including tensors that share another's memory.
func TestSmallTensorsCount(t *testing.T) {
	a := &Account{}
	a.limit.Store(64 << 20)
	a.collected.Store(1 << 62) // a collection would find less
	pool := newPool(a, "test", 0)
	made := func(p *Pool, dtype DType, shape Shape) *Tensor {
		v, err := New(p, dtype, shape)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for name, next := range map[string]func(p *Pool, whole *Tensor) *Tensor{
		"empty":    func(p *Pool, _ *Tensor) *Tensor { return made(p, Float32, Shape{0}) },
		"a scalar": func(p *Pool, _ *Tensor) *Tensor { return made(p, Int64, nil) },
		"a string": func(p *Pool, _ *Tensor) *Tensor { return made(p, String, nil) },
		"variant":  func(p *Pool, _ *Tensor) *Tensor { return made(p, Variant, nil) },
		"rows":     func(_ *Pool, whole *Tensor) *Tensor { return whole.Rows(0, 0) },
		"reshaped": func(_ *Pool, whole *Tensor) *Tensor { return whole.Reshaped(Shape{0, 1}) },
	} {
		t.Run(name, func(t *testing.T) {
			_, own := sessionOf(a, pool)
			whole := made(own, Float32, Shape{0})
			var all []*Tensor
			for range a.limit.Load() / reservePart / tensorBytes {
				all = append(all, next(own, whole))
			}
			a.short.Store(true)
			defer a.short.Store(false)
			wantExhausted(t, own.Admits())
			for _, v := range all {
				v.Release()
			}
			if err := own.Admits(); err != nil {
				t.Errorf("after the last release: %v", err)
			}
			whole.Release()
		})
	}
}
