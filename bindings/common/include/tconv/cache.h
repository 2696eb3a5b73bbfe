/* Plans of many problems, and one layer's weights in every layout that the plans read: what a server or a
 * framework's binding keeps between calls. C11, over tconv.h; it is in the library tconv_cache.
 *
 *   tconv_cache_create(NULL, 0, &cache);                             once
 *   tconv_weights_create(weight, NULL, &weights);                    once a layer
 *   tconv_cache_get(cache, &problem, &cached);                       each call: any length
 *   tconv_weights_packed(weights, cached, NULL, &run.packed_weight);
 *   tconv_run(tconv_cached_plan_of(cached), &run);
 *   tconv_cached_plan_release(cached);
 *
 * Every function except the two that destroy may be called from any thread at any time. After fork() a child
 * has empty caches. Functions return what tconv.h's return and leave their message for tconv_last_error();
 * handles and places for results must not be NULL.
 */
#ifndef TCONV_CACHE_H
#define TCONV_CACHE_H

#include <tconv/tconv.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tconv_cache tconv_cache;
typedef struct tconv_cached_plan tconv_cached_plan;
typedef struct tconv_weights tconv_weights;

/* options: those of every plan, or NULL. They are copied, with their strings; tconv_cache_get reports what is
 * wrong with them. bytes: how much the plans may hold before the least recently used one
 * goes; 0: 16 MiB, thousands of plans. */
tconv_status tconv_cache_create(const tconv_plan_options* options, size_t bytes, tconv_cache** cache);
void tconv_cache_destroy(tconv_cache* cache); /* plans in use live on until their release */

/* The plan of a problem, made where the cache has none. Release it once. */
tconv_status tconv_cache_get(tconv_cache* cache, const tconv_problem* problem, tconv_cached_plan** cached);
void tconv_cached_plan_release(tconv_cached_plan* cached);
const tconv_plan* tconv_cached_plan_of(const tconv_cached_plan* cached);

/* Memory of packed weights, on the plans' device. allocate aligns to TCONV_BUFFER_ALIGNMENT, and returns
 * NULL if there is no memory. */
typedef struct tconv_memory {
  void* (*allocate)(void* context, size_t bytes);
  void (*release)(void* context, void* memory);
  void* context;
} tconv_memory;

/* weight (cin, cout/groups, k) of one layer, in the plans' device memory, stays where it is and as it is
 * until the weights are destroyed. memory: NULL for the host's. */
tconv_status tconv_weights_create(const void* weight, const tconv_memory* memory, tconv_weights** weights);
void tconv_weights_destroy(tconv_weights* weights);

/* The layer's weights in the layout that the plan reads: packed at the first call that needs it, on the
 * stream (cudaStream_t, or NULL), and there until the weights are destroyed. The plan must come from one
 * cache for all calls with these weights. Other streams must wait for that first call's. */
tconv_status tconv_weights_packed(tconv_weights* weights, const tconv_cached_plan* cached, void* stream,
                                  const void** packed);

#ifdef __cplusplus
}
#endif
#endif /* TCONV_CACHE_H */
