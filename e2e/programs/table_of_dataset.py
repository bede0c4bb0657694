"""Fills a lookup table from a dataset on the ps, and looks words up through the worker.

  table_of_dataset.py TARGET
"""
import sys

import tensorflow as tf
from tensorflow.python.ops import gen_experimental_dataset_ops

tf.compat.v1.disable_eager_execution()

with tf.Graph().as_default(), tf.device("/job:ps/task:0"):
    words = tf.data.Dataset.from_tensor_slices(["a", "b", "c"])
    pairs = tf.data.Dataset.zip((words, tf.data.Dataset.range(10, 13)))
    handle = tf.raw_ops.HashTableV2(key_dtype=tf.string, value_dtype=tf.int64)
    fill = gen_experimental_dataset_ops.initialize_table_from_dataset(handle, pairs._variant_tensor)
    wrong = gen_experimental_dataset_ops.initialize_table_from_dataset(handle, words._variant_tensor)
    found = tf.raw_ops.LookupTableFindV2(table_handle=handle, keys=["c", "z", "a"], default_value=tf.constant(-1, tf.int64))
    with tf.compat.v1.Session(sys.argv[1]) as session:
        session.run(fill)
        session.run(fill)  # again changes nothing
        try:
            session.run(wrong)
        except tf.errors.InvalidArgumentError as e:
            print("two output types only" in str(e), end=" ")
        print(session.run(found).tolist())
