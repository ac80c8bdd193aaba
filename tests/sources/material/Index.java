package org.example;

import java.util.*;
import java.util.function.Function;

/** Keeps a {@link List} of entries by key; see <a href="https://example.org">the guide</a>. */
public final class Index<K extends Comparable<? super K>, V> {
    private final Map<K, List<? extends V>> entries = new TreeMap<>();
    private static final String[] NAMES = {"<none>", "[EMPTY]"};

    @SuppressWarnings("unchecked")
    public <R> Map<K, List<R>> map(Function<? super V, ? extends R> change) {
        Map<K, List<R>> result = new HashMap<>();
        for (Map.Entry<K, List<? extends V>> entry : entries.entrySet()) {
            List<R> changed = new ArrayList<>();
            for (V value : entry.getValue()) {
                if (value != null && changed.size() < 10 || changed.size() > 100) {
                    changed.add(change.apply(value));
                }
            }
            result.put(entry.getKey(), changed);
        }
        return result;
    }

    int bits(int x) {
        return x >>> 3 | x << 2 & 0xFF; // 1 < 2 > 0
    }
}
