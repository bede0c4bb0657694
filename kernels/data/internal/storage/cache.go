package storage

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/checkpoint"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
	"github.com/troupe-run/troupe/kernels/files"
	"github.com/troupe-run/troupe/kernels/internal/process"
	"github.com/troupe-run/troupe/kernels/internal/variant"
)

// kindMemory is the kind of memories as resources.
const kindMemory = "tensorflow::data::MemoryCacheManager"

// memory holds the elements of a dataset once an iterator has reached the end. The iterators of the dataset share it. It lives as long as
// its resource or one of the datasets that use it.
type memory struct {
	mu       sync.Mutex
	users    int // the resource and datasets
	elements []dataset.Element
	complete bool
}

// get returns the elements; false until they are complete.
func (m *memory) get() ([]dataset.Element, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.elements, m.complete
}

// set stores and retains the elements, unless some are stored already.
func (m *memory) set(list []dataset.Element) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.complete {
		return
	}
	m.complete = true
	for _, e := range list {
		m.elements = append(m.elements, e.Retain())
	}
}

// newMemory returns an empty memory with one user.
func newMemory() *memory { return &memory{users: 1} }

// newMemoryCache returns the kernel of a memory as a resource, which datasets share.
func newMemoryCache(*kernels.Construction) (any, error) {
	return kernels.Func(func(ctx *kernels.Context) error {
		return dataset.OutputAnonymous(ctx, kindMemory, dataset.NewHolder(newMemory()))
	}), nil
}

// retain adds a user.
func (m *memory) retain() *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.users++
	return m
}

// Release removes a user. The last one drops the elements.
func (m *memory) Release() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.users--; m.users > 0 {
		return
	}
	dataset.ReleaseAll(m.elements)
	m.elements, m.complete = nil, false
}

// cache returns the elements of the first pass again in later passes.
type cache struct {
	input  *dataset.Dataset
	memory *memory

	mu   sync.Mutex
	seen []dataset.Element // accessed by index so far, from the iterator below
	env  *dataset.Env
	it   dataset.Iterator
}

// newCache parses CacheDataset, newCacheV2 the version whose memory is a resource.
func newCache(*dataset.Settings) dataset.Maker {
	return func(in *dataset.Inputs) dataset.Kind { return cacheOf(in, nil) }
}

func newCacheV2(*dataset.Settings) dataset.Maker {
	return func(in *dataset.Inputs) dataset.Kind {
		return cacheOf(in, dataset.ResourceOf[*memory](in, 2, kindMemory))
	}
}

func cacheOf(in *dataset.Inputs, m *memory) dataset.Kind {
	input, file := in.Dataset(0), in.Str(1, "filename")
	if file != "" {
		return &fileCache{input: input, prefix: file}
	}
	if m == nil {
		return &cache{input: input, memory: newMemory()}
	}
	return &cache{input: input, memory: m.retain()}
}

func (k *cache) Cardinality(q *dataset.Query) int64 { return k.input.Cardinality(q) }

func (k *cache) StageName() string { return "MemoryCacheImpl" }

// InRange accepts any non-negative index that the input may have, since at finds out how many elements there are.
func (k *cache) InRange(n, i int64) error {
	if i < 0 {
		return status.Errorf(status.OutOfRange, "Index out of range: %d is negative", i)
	}
	if n >= 0 && i >= n {
		return dataset.OutOfRange(n, i)
	}
	return nil
}

// At advances an iterator up to the element at the index, and requests each element only once.
func (k *cache) At(c *dataset.Call, i int64) (dataset.Element, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.it == nil {
		env := c.Like()
		it, err := k.input.Open(env)
		if err != nil {
			env.Shutdown()
			return nil, err
		}
		k.env, k.it = env, it
	}
	own, end := k.env.NewCall(c.Depth, c.Cancellation)
	defer end()
	for int64(len(k.seen)) <= i {
		e, err := k.it.Next(own)
		if dataset.AtEnd(err) && c.Lookup {
			return nil, dataset.OutOfRange(int64(len(k.seen)), i)
		}
		if err != nil {
			return nil, err
		}
		k.seen = append(k.seen, e)
	}
	return k.seen[i].Retain(), nil
}

// Drop is called when the dataset's last reference is dropped.
func (k *cache) Drop() {
	dataset.ReleaseAll(k.seen)
	if k.it != nil {
		k.it.Close()
		k.env.Shutdown()
	}
	k.memory.Release()
}

func (k *cache) Open(e *dataset.Env) (dataset.Iterator, error) { return &caching{of: k, env: e}, nil }

// caching reads the memory if it is complete when the first element is requested; otherwise it fills it.
type caching struct {
	of    *cache
	env   *dataset.Env
	begun bool
	input dataset.Iterator // while it fills the memory
	list  []dataset.Element
	next  int
}

func (it *caching) begin() error {
	if it.begun {
		return nil
	}
	if _, ok := it.of.memory.get(); !ok {
		input, err := it.of.input.Open(it.env)
		if err != nil {
			return err
		}
		it.input = input
	}
	it.begun = true
	return nil
}

func (it *caching) Next(c *dataset.Call) (dataset.Element, error) {
	if err := it.begin(); err != nil {
		return nil, err
	}
	if it.input == nil {
		list, _ := it.of.memory.get()
		if it.next >= len(list) {
			return nil, io.EOF
		}
		if err := c.Err(); err != nil {
			return nil, err
		}
		it.next++
		return list[it.next-1].Retain(), nil
	}
	e, err := it.input.Next(c)
	switch {
	case err == nil:
		it.list = append(it.list, e.Retain())
		if n := int64(len(it.list)); dataset.Reported(n) {
			it.env.Stage.Hold(n, e)
		}
	case dataset.AtEnd(err):
		it.of.memory.set(it.list)
		it.next = len(it.list)
		it.Close()
	}
	return e, err
}

func (it *caching) Close() {
	dataset.ReleaseAll(it.list)
	it.list = nil
	if it.input != nil {
		it.input.Close()
		it.input = nil
	}
}

func (it *caching) Save(c *dataset.Call, w *dataset.Writer) {
	w.Bool("begun", it.begun)
	w.Int("next", int64(it.next))
	list, complete := it.of.memory.get()
	w.Bool("complete", complete)
	if complete {
		w.Elements("memory", list)
	}
	w.Bool("filling", it.input != nil)
	if it.input != nil {
		w.Elements("list", it.list)
		it.input.Save(c, w.In("input"))
	}
}

func (it *caching) Restore(c *dataset.Call, r *dataset.Reader) {
	begun := r.Bool("begun")
	it.next = int(r.Place("next"))
	if it.next < 0 {
		r.Fail(status.Errorf(status.DataLoss, "The saved state of a cached dataset stands before element %d", it.next))
	}
	if r.Bool("complete") {
		list := r.Elements("memory")
		if r.Err == nil {
			it.of.memory.set(list)
		}
		dataset.ReleaseAll(list)
	}
	if it.begun = begun; !r.Bool("filling") {
		return
	}
	it.begun = true // otherwise the first Next would open another input
	it.list = r.Elements("list")
	input, err := it.of.input.Open(it.env)
	if err != nil {
		r.Fail(err)
		return
	}
	it.input = input
	input.Restore(c, r.In("input"))
}

// fileCache stores the elements in a checkpoint, in TensorFlow's format.
type fileCache struct {
	input  *dataset.Dataset
	prefix string
}

func (k *fileCache) Cardinality(q *dataset.Query) int64 { return k.input.Cardinality(q) }

func (k *fileCache) StageName() string { return "FileCacheImpl" }

func (k *fileCache) Open(e *dataset.Env) (dataset.Iterator, error) {
	return &fileCaching{of: k, env: e}, nil
}

// maxCached bounds the elements of a cache in files: their numbers must fit in the seven characters that tensor names have for them.
const maxCached = 10_000_000

// name returns the tensor name of a component of an element.
func (k *fileCache) name(element, component int) string {
	digits := len(strconv.Itoa(len(k.input.Types) - 1))
	return fmt.Sprintf("%7d_%*d", element, digits, component)
}

// shard returns the file prefix of a part of the cache. There are several if the iterator was saved before its end.
func (k *fileCache) shard(i int) string { return k.prefix + "_" + strconv.Itoa(i) }

func (k *fileCache) lock(i int) string { return k.shard(i) + ".lockfile" }

// fileCaching reads the files if they are complete when the first element is requested; otherwise it writes them.
type fileCaching struct {
	of     *fileCache
	env    *dataset.Env
	begun  bool
	input  dataset.Iterator // while it writes the files
	writer *checkpoint.Writer
	reader *checkpoint.Reader
	part   int // the number of the part being written
	next   int
	ended  bool
}

func (it *fileCaching) begin(c *dataset.Call) error {
	if it.begun {
		return nil
	}
	if err := it.env.NoteFile(it.of.prefix + ".index"); err != nil {
		return err
	}
	if checkpoint.Exists(it.env.Files(), it.of.prefix) {
		return it.read(c)
	}
	input, err := it.of.input.Open(it.env)
	if err != nil {
		return err
	}
	if err := it.write(c); err != nil {
		input.Close()
		return err
	}
	it.input, it.begun = input, true
	return nil
}

func (it *fileCaching) read(c *dataset.Call) error {
	r, err := checkpoint.Open(it.env.Files(), it.of.prefix, variant.Codec{Pool: c.Pool()})
	if err != nil {
		return err
	}
	it.reader, it.begun = r, true
	return nil
}

// write begins a part. The lock file announces it to other iterators, including those in other processes.
func (it *fileCaching) write(c *dataset.Call) error {
	lock := it.of.lock(it.part)
	if _, err := it.env.Files().Stat(lock); err == nil {
		return status.Errorf(status.AlreadyExists, "There appears to be a concurrent caching iterator running - cache lockfile already exists ('%s'). If you are sure no other running TF computations are using this cache prefix, delete the lockfile and re-initialize the iterator. Lockfile contents: %s",
			lock, lockContents(it.env.Files(), lock))
	}
	f, err := it.env.Files().Create(lock)
	if err != nil {
		return files.Error(lock, err)
	}
	host, err := process.Host()
	if err == nil {
		_, err = fmt.Fprintf(f, "Created at: %d by process %d of %s", time.Now().Unix(), process.ID(), host)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return files.Error(lock, err)
	}
	it.writer, err = checkpoint.Create(it.env.Files(), it.of.shard(it.part), variant.Codec{Pool: c.Pool()})
	return err
}

// maxLockContents bounds how much of a lock file an error quotes.
const maxLockContents = 150

// lockContents returns what a lock file says about its owner; empty if the file is gone or unreadable.
func lockContents(fsys files.FS, lock string) string {
	f, err := fsys.Open(lock)
	if err != nil {
		return ""
	}
	defer f.Close()
	contents := make([]byte, maxLockContents)
	n, _ := io.ReadFull(f, contents) // most lock files are shorter
	return string(contents[:n])
}

func (it *fileCaching) Next(c *dataset.Call) (dataset.Element, error) {
	if it.ended {
		return nil, io.EOF
	}
	if err := it.begin(c); err != nil {
		return nil, err
	}
	if it.reader != nil {
		return it.nextRead(c)
	}
	if it.writer == nil {
		if err := it.write(c); err != nil {
			return nil, err
		}
	}
	if it.next >= maxCached {
		return nil, status.InvalidArgumentf("Upstream iterator is producing more than %d items, which is more than the cache limit.", maxCached)
	}
	e, err := it.input.Next(c)
	if dataset.AtEnd(err) {
		it.ended = true
		if err := it.finish(); err != nil {
			return nil, err
		}
		return nil, io.EOF
	}
	if err != nil {
		return nil, err
	}
	for i, t := range e {
		if err := it.writer.Add(it.of.name(it.next, i), t); err != nil {
			e.Release()
			return nil, err
		}
	}
	it.next++
	return e, nil
}

func (it *fileCaching) nextRead(c *dataset.Call) (dataset.Element, error) {
	e := make(dataset.Element, 0, len(it.of.input.Types))
	for i := range it.of.input.Types {
		t, err := it.reader.Read(c.Pool(), it.of.name(it.next, i))
		if err != nil {
			e.Release()
			if status.CodeOf(err) == status.NotFound && i == 0 {
				return nil, io.EOF
			}
			return nil, err
		}
		e = append(e, t)
	}
	it.next++
	return e, nil
}

// endPart completes the part that is being written.
func (it *fileCaching) endPart() error {
	err := it.writer.Finish()
	it.writer = nil
	return err
}

// finish merges the parts into one checkpoint.
func (it *fileCaching) finish() error {
	if err := it.endPart(); err != nil {
		return err
	}
	var parts []string
	for i := range it.part + 1 {
		parts = append(parts, it.of.shard(i))
	}
	if err := checkpoint.Merge(it.env.Files(), parts, it.of.prefix, false); err != nil {
		return err
	}
	for i := range it.part + 1 {
		if err := it.env.Files().Remove(it.of.lock(i)); err != nil {
			return files.Error(it.of.lock(i), err)
		}
	}
	return nil
}

// Close leaves the lock file of an unfinished iterator in place, as TensorFlow does: the cache is incomplete.
func (it *fileCaching) Close() {
	if it.writer != nil {
		it.writer.Abort()
	}
	if it.reader != nil {
		it.reader.Close()
	}
	if it.input != nil {
		it.input.Close()
	}
	it.writer, it.reader, it.input = nil, nil, nil
}

func (it *fileCaching) Save(c *dataset.Call, w *dataset.Writer) {
	w.Bool("begun", it.begun)
	w.Bool("writing", it.input != nil)
	w.Bool("ended", it.ended)
	w.Int("next", int64(it.next))
	if it.input == nil {
		return
	}
	if it.writer != nil && !it.ended {
		if err := it.endPart(); err != nil {
			w.Fail(err)
			return
		}
		it.part++
	}
	w.Int("part", int64(it.part))
	it.input.Save(c, w.In("input"))
}

func (it *fileCaching) Restore(c *dataset.Call, r *dataset.Reader) {
	begun, writing := r.Bool("begun"), r.Bool("writing")
	it.ended, it.next = r.Bool("ended"), int(r.Place("next"))
	if !begun || r.Err != nil {
		return
	}
	if writing && checkpoint.Exists(it.env.Files(), it.of.prefix) {
		// The saved iterator, or another one, has since reached the end.
		writing = false
	}
	if !writing {
		r.Check(it.read(c))
		return
	}
	it.part = r.Count("part")
	input, err := it.of.input.Open(it.env)
	if err != nil {
		r.Fail(err)
		return
	}
	it.input, it.begun = input, true
	input.Restore(c, r.In("input"))
	// Discard what the iterator wrote after it was saved.
	for _, name := range []string{it.of.lock(it.part), it.of.shard(it.part) + ".index"} {
		if _, err := it.env.Files().Stat(name); err == nil {
			r.Check(files.Error(name, it.env.Files().Remove(name)))
		}
	}
}
